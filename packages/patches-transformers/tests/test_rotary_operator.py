"""The portable rotation beside the formula: derivatives of every kind, transforms, compilers."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from transformers_patches.rotary_operators import portable_rotary_mul  # noqa: E402

DTYPES = [
    (torch.float32, torch.float32),
    (torch.bfloat16, torch.bfloat16),
    (torch.bfloat16, torch.float32),
    (torch.float32, torch.bfloat16),
]


def _formula(x, cos, sin, interleaved):
    """x * cos + rotated(x) * sin, with a rotated copy."""
    if interleaved:
        rotated = torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)
    else:
        rotated = torch.cat((-x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]), dim=-1)
    return x * cos + rotated * sin


def _inputs(x_dtype=torch.float64, factor_dtype=torch.float64, requires_grad=True):
    """Heads between positions and channels, as models hold them, and angles that differ in all channels."""
    x = torch.randn(2, 5, 3, 8).to(x_dtype).transpose(1, 2).requires_grad_(requires_grad)
    cos, sin = (torch.randn(2, 1, 5, 8).to(factor_dtype) for _ in range(2))
    return x, cos, sin


def _operator(interleaved):
    return lambda x, cos, sin: portable_rotary_mul(x, cos, sin, interleaved)


pytestmark = [
    pytest.mark.parametrize("interleaved", [False, True]),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.mark.parametrize("dtypes", DTYPES, ids=str)
@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad])
def test_values_are_those_of_the_formula_to_the_bit(interleaved, dtypes, mode):
    x, cos, sin = _inputs(*dtypes)
    before = x.detach().clone()
    with mode():
        found, expected = (f(x, cos, sin, interleaved) for f in (portable_rotary_mul, _formula))
    assert found.dtype is expected.dtype and torch.equal(found, expected)
    assert torch.equal(x.detach(), before)


@pytest.mark.parametrize("learned", ["", "cos", "sin"])
def test_first_and_second_derivatives_are_right(interleaved, learned):
    x, cos, sin = _inputs()
    cos.requires_grad_(learned == "cos")
    sin.requires_grad_(learned == "sin")
    assert torch.autograd.gradcheck(_operator(interleaved), (x, cos, sin))
    assert torch.autograd.gradgradcheck(_operator(interleaved), (x, cos, sin))


def test_a_gradient_is_rounded_as_upstreams_is(interleaved):
    x, cos, sin = _inputs(torch.bfloat16, torch.bfloat16)
    results = [f(x, cos, sin, interleaved) for f in (portable_rotary_mul, _formula)]
    weights = torch.randn_like(results[0])
    found, expected = (torch.autograd.grad(result, x, weights)[0] for result in results)
    assert torch.equal(found, expected)


def test_transforms_of_functions_go_through(interleaved):
    x, cos, sin = _inputs(requires_grad=False)
    tangent = torch.randn_like(x)

    def squares(function):
        return lambda x: (function(x, cos, sin, interleaved) ** 3).sum()

    for transform in (torch.func.grad, torch.func.jacfwd, torch.func.hessian):
        found, expected = (transform(squares(f))(x) for f in (portable_rotary_mul, _formula))
        torch.testing.assert_close(found, expected)
    for f in (portable_rotary_mul, _formula):
        each = torch.func.vmap(lambda x, cos, sin, f=f: f(x, cos, sin, interleaved))(x, cos, sin)
        torch.testing.assert_close(each, f(x, cos, sin, interleaved))
    found, expected = (
        torch.func.jvp(squares(f), (x,), (tangent,))[1] for f in (portable_rotary_mul, _formula)
    )
    torch.testing.assert_close(found, expected)


def test_it_compiles_to_one_graph_and_traces(interleaved):
    x, cos, sin = _inputs()
    weights = torch.randn_like(x)
    compiled = torch.compile(_operator(interleaved), fullgraph=True, backend="aot_eager")
    traced = torch.jit.trace(_operator(interleaved), (x, cos, sin))
    (expected,) = torch.autograd.grad(_formula(x, cos, sin, interleaved), x, weights)
    for one in (compiled, traced):
        torch.testing.assert_close(torch.autograd.grad(one(x, cos, sin), x, weights)[0], expected)
    assert "PythonOp" not in str(traced.graph)
