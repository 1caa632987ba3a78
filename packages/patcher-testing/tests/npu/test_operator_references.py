"""The references of `npu::` operators against their formulas, evaluated in float64."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the simulated NPU needs torch")

pytestmark = [pytest.mark.simulated_npu, pytest.mark.usefixtures("random_seed")]

# one rounding of the result (float32: 2**-24, bfloat16: 2**-9, float16: 2**-11) with room for the sums before
# it
TOLERANCES = {
    torch.float32: {"rtol": 1e-5, "atol": 1e-5},
    torch.bfloat16: {"rtol": 2**-7, "atol": 2**-7},
    torch.float16: {"rtol": 2**-9, "atol": 2**-9},
}
every_dtype = pytest.mark.parametrize("dtype", TOLERANCES, ids=str)


def assert_follows(operator, formula, inputs, dtype):
    """Values and gradients of `operator` on the NPU equal those of `formula` in float64."""
    npu_inputs = [tensor.to(dtype).npu().requires_grad_() for tensor in inputs]
    exact_inputs = [tensor.to(dtype).double().requires_grad_() for tensor in inputs]
    found, expected = operator(*npu_inputs), formula(*exact_inputs)
    grad = torch.randn(expected.shape).to(dtype)
    found.backward(grad.npu())
    expected.backward(grad.double())

    assert found.dtype == dtype
    pairs = [(found, expected), *((n.grad, e.grad) for n, e in zip(npu_inputs, exact_inputs))]
    for one_found, one_expected in pairs:
        assert one_expected.abs().max() > 0
        torch.testing.assert_close(
            one_found.detach().cpu().double(), one_expected.detach(), **TOLERANCES[dtype]
        )


def rotate_half(x):
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), dim=-1)


def rotate_neighbours(x):
    return torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).reshape(x.shape)


@every_dtype
@pytest.mark.parametrize("weight_shape", [(16,), (5, 16)])
def test_rms_norm(dtype, weight_shape):
    import torch_npu

    dims = tuple(range(-len(weight_shape), 0))
    assert_follows(
        lambda x, weight: torch_npu.npu_rms_norm(x, weight, epsilon=1e-5)[0],
        lambda x, weight: x / torch.sqrt((x * x).mean(dims, keepdim=True) + 1e-5) * weight,
        [torch.randn(3, 5, 16), torch.rand(weight_shape) + 0.5],
        dtype,
    )


def test_rms_norm_keeps_the_dtype_of_x_and_gives_a_float32_weight_gradient():
    import torch_npu

    x, weight = torch.randn(3, 16).bfloat16().npu().requires_grad_(), torch.rand(16).npu().requires_grad_()
    y, rstd = torch_npu.npu_rms_norm(x, weight)
    y.sum().backward()
    assert (y.dtype, rstd.dtype, x.grad.dtype, weight.grad.dtype) == (
        torch.bfloat16,
        torch.float32,
        torch.bfloat16,
        torch.float32,
    )
    with pytest.raises(RuntimeError, match=r"gamma \(8,\) must equal the last dimensions"):
        torch_npu.npu_rms_norm(x, weight[:8])


def test_add_rms_norm_and_gemma_rms_norm():
    import torch_npu

    x, other, weight = torch.randn(3, 16), torch.randn(3, 16), torch.rand(16)
    y, _, total = torch_npu.npu_add_rms_norm(x.npu(), other.npu(), weight.npu(), epsilon=1e-5)
    summed = x.double() + other.double()
    normalized = summed / torch.sqrt((summed**2).mean(-1, keepdim=True) + 1e-5)
    torch.testing.assert_close(y.cpu().double(), normalized * weight.double(), **TOLERANCES[torch.float32])
    torch.testing.assert_close(total.cpu().double(), summed, **TOLERANCES[torch.float32])
    y = torch_npu.npu_gemma_rms_norm((x + other).npu(), weight.npu(), 1e-5)[0]
    torch.testing.assert_close(
        y.cpu().double(), normalized * (1 + weight.double()), **TOLERANCES[torch.float32]
    )


@every_dtype
@pytest.mark.parametrize("mode, rotate", [("half", rotate_half), ("interleave", rotate_neighbours)])
def test_rotary_mul(dtype, mode, rotate):
    import torch_npu

    assert_follows(
        lambda x, cos, sin: torch_npu.npu_rotary_mul(x, cos, sin, rotary_mode=mode),
        lambda x, cos, sin: x * cos + rotate(x) * sin,
        [torch.randn(2, 4, 6, 8), torch.randn(2, 1, 6, 8), torch.randn(2, 1, 6, 8)],
        dtype,
    )


def test_rotary_mul_wants_four_dimensions_and_full_heads():
    import torch_npu

    x = torch.randn(2, 4, 6, 8).npu()
    for factor in (torch.randn(2, 6, 8), torch.randn(2, 1, 6, 4)):
        with pytest.raises(RuntimeError, match="takes 4-D tensors"):
            torch_npu.npu_rotary_mul(x, factor.npu(), factor.npu())
    with pytest.raises(RuntimeError, match="rotary_mode"):
        torch_npu.npu_rotary_mul(x, x, x, rotary_mode="quarter")


def test_apply_rotary_pos_emb_rotates_both():
    import torch_npu

    q, k, cos, sin = (
        torch.randn(2, 6, 4, 8),
        torch.randn(2, 6, 2, 8),
        torch.randn(2, 6, 1, 8),
        torch.randn(2, 6, 1, 8),
    )
    found = torch_npu.npu_apply_rotary_pos_emb(q.npu(), k.npu(), cos.npu(), sin.npu())
    for one_found, x in zip(found, (q, k)):
        torch.testing.assert_close(
            one_found.cpu(), x * cos + rotate_half(x) * sin, **TOLERANCES[torch.float32]
        )


def silu(x):
    return x / (1 + torch.exp(-x))


def tanh_gelu(x):
    return 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)))


def erf_gelu(x):
    return 0.5 * x * (1 + torch.erf(x / 2**0.5))


@every_dtype
@pytest.mark.parametrize("dim", [-1, 1])
def test_swiglu(dtype, dim):
    import torch_npu

    def formula(x):
        gate, up = x.chunk(2, dim)
        return silu(gate) * up

    assert_follows(lambda x: torch_npu.npu_swiglu(x, dim), formula, [torch.randn(3, 6, 8)], dtype)


@every_dtype
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("code, gelu", [(0, erf_gelu), (1, tanh_gelu)])
def test_geglu(dtype, left, code, gelu):
    import torch_npu

    def formula(x):
        first, second = x.chunk(2, -1)
        return gelu(first) * second if left else first * gelu(second)

    assert_follows(
        lambda x: torch_npu.npu_geglu(x, approximate=code, activate_left=left)[0],
        formula,
        [torch.randn(3, 8)],
        dtype,
    )


@every_dtype
@pytest.mark.parametrize(
    "name, formula",
    [
        ("fast_gelu", lambda x: x / (1 + torch.exp(-1.702 * x))),
        ("npu_fast_gelu", lambda x: x / (1 + torch.exp(-1.702 * x))),
        ("npu_gelu", erf_gelu),
        ("npu_silu", silu),
        ("npu_mish", lambda x: x * torch.tanh(torch.log(1 + torch.exp(x)))),
    ],
)
def test_activations(name, formula, dtype):
    import torch_npu

    operator = getattr(torch_npu, name, None) or getattr(torch.ops.npu, name)
    assert_follows(operator, formula, [torch.randn(4, 7)], dtype)


def test_scaled_masked_softmax():
    import torch_npu

    x, mask = torch.randn(2, 3, 4, 8), torch.rand(2, 1, 4, 8) < 0.4
    mask[..., 0] = False
    found = torch_npu.npu_scaled_masked_softmax(x.npu(), mask.npu(), 0.5, False)
    weights = torch.exp(x.double() * 0.5) * ~mask
    torch.testing.assert_close(
        found.cpu().double(), weights / weights.sum(-1, keepdim=True), **TOLERANCES[torch.float32]
    )


@pytest.mark.parametrize("first", [False, True])
def test_confusion_transpose(first):
    import torch_npu

    shape, perm, view = (
        ((2, 3, 4, 5), (0, 2, 1, 3), (2, 4, 15)) if first else ((2, 4, 15), (0, 2, 1, 3), (2, 4, 3, 5))
    )
    assert_follows(
        lambda x: torch_npu.npu_confusion_transpose(x, perm, view, first),
        lambda x: x.permute(*perm).reshape(view) if first else x.reshape(view).permute(*perm),
        [torch.randn(shape)],
        torch.float32,
    )


def test_casts_change_the_dtype_and_nothing_else():
    import torch_npu

    x = torch.randn(3, 4)
    half = torch_npu.npu_dtype_cast(x.npu(), torch.float16)
    assert half.dtype == torch.float16 and torch.equal(half.cpu(), x.half())
    assert torch.equal(torch_npu.npu_format_cast(x.npu(), 2).cpu(), x)


ORDINARY_OPERATORS_WITH_FORMULAS_OF_TORCH_NPU = {
    "gather": lambda x: x.gather(1, torch.tensor([[0, 2], [1, 1], [3, 0]], device=x.device)),
    "renorm": lambda x: torch.renorm(x, 2, 0, 1.0),
    "rfft": lambda x: torch.fft.rfft(x).abs(),
    "irfft": lambda x: torch.fft.irfft(torch.complex(x, x.flip(0))),
    "bce with logits": lambda x: torch.nn.functional.binary_cross_entropy_with_logits(
        x, torch.full_like(x, 0.3), pos_weight=torch.full((4,), 2.0, device=x.device)
    ),
    "matmul": lambda x: x @ x.t(),
    "softmax": lambda x: torch.softmax(x, -1) ** 2,
    "l1 loss": lambda x: torch.nn.functional.l1_loss(x, torch.ones_like(x)),
    "kl div": lambda x: torch.nn.functional.kl_div(x.log_softmax(-1), torch.softmax(x.detach().flip(0), -1)),
    "repeat_interleave": lambda x: x.repeat_interleave(3, dim=1) ** 2,
    "where": lambda x: torch.where(x > 0, x, x * 0.1),
    "cdist": lambda x: torch.cdist(x, x.detach() + 1),
    "log_sigmoid": lambda x: torch.nn.functional.logsigmoid(x),
    "sdpa": lambda x: torch.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None]),
}


@pytest.mark.parametrize("function", ORDINARY_OPERATORS_WITH_FORMULAS_OF_TORCH_NPU.values(), ids=lambda f: "")
@pytest.mark.filterwarnings("ignore:reduction. 'mean':UserWarning")
def test_ordinary_operators_that_torch_npu_differentiates_itself(function):
    x = torch.randn(3, 4)
    on_cpu, on_npu = x.clone().requires_grad_(), x.npu().requires_grad_()
    expected, found = function(on_cpu), function(on_npu)
    grad = torch.randn(expected.shape)
    expected.backward(grad)
    found.backward(grad.npu())
    torch.testing.assert_close(found.cpu(), expected)
    torch.testing.assert_close(on_npu.grad.cpu(), on_cpu.grad)


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU])
def test_recurrent_networks(kind):
    import copy

    network = kind(4, 5, batch_first=True)
    on_npu = copy.deepcopy(network).npu()
    x = torch.randn(2, 3, 4)
    expected, found = network(x)[0], on_npu(x.npu())[0]
    expected.sum().backward()
    found.sum().backward()
    torch.testing.assert_close(found.cpu(), expected)
    for wanted, got in zip(network.parameters(), on_npu.parameters()):
        torch.testing.assert_close(got.grad.cpu(), wanted.grad)
