"""The portable RMSNorm beside the formula: derivatives of every kind, transforms, compilers, what is kept."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from transformers_patches.rms_norm_operators import portable_rms_norm  # noqa: E402

EPSILON = 1e-3
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def _formula(x, weight, rounds_first):
    """As LlamaRMSNorm (which rounds first) and Olmo2RMSNorm write it."""
    wide = x.float()
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + EPSILON)
    return weight * wide.to(x.dtype) if rounds_first else (weight * wide).to(x.dtype)


def _operator(x, weight, rounds_first):
    return portable_rms_norm(x, weight, EPSILON, rounds_first)


def _inputs(dtype=torch.float32):
    """Rows of different lengths, of which one is no longer than epsilon."""
    x = torch.randn(2, 3, 8) * torch.tensor([3.0, 1.0, 0.02]).reshape(3, 1)
    return x.to(dtype).requires_grad_(), torch.randn(8).to(dtype).requires_grad_()


@pytest.mark.parametrize("rounds_first", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_values_are_those_of_the_formula_to_the_bit_with_and_without_gradients(dtype, rounds_first):
    x, weight = _inputs(dtype)
    expected = _formula(x, weight, rounds_first)
    for mode in (torch.enable_grad, torch.no_grad):
        with mode():
            found = _operator(x, weight, rounds_first)
        assert found.dtype is expected.dtype and torch.equal(found, expected)


def test_the_gradient_of_the_gradient_is_that_of_the_formula():
    x, weight = _inputs()
    weights, other_weights = torch.randn_like(x), torch.randn_like(x)
    derived = []
    for function in (_operator, _formula):
        (first,) = torch.autograd.grad(function(x, weight, True), x, weights, create_graph=True)
        derived.append([first, *torch.autograd.grad(first, (x, weight), other_weights)])
    for found, expected in zip(*derived):
        # in float32, in which terms as large as the largest result cancel one another
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5 * expected.abs().max().item())


def test_transforms_of_functions_go_through():
    x, weight = (one.detach() for one in _inputs())
    tangent = torch.randn_like(x)

    def cubes(function):
        return lambda x: (function(x, weight, True) ** 3).sum()

    for transform in (torch.func.grad, torch.func.jacfwd, lambda f: torch.func.vmap(torch.func.grad(f))):
        found, expected = (transform(cubes(f))(x) for f in (_operator, _formula))
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5 * expected.abs().max().item())
    found, expected = (
        torch.func.jvp(lambda x, f=f: f(x, weight, True), (x,), (tangent,))[1] for f in (_operator, _formula)
    )
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5 * expected.abs().max().item())


def test_it_compiles_to_one_graph_and_traces():
    x, weight = _inputs()
    weights = torch.randn_like(x)

    def operator(x, weight):
        return _operator(x, weight, True)

    compiled = torch.compile(operator, fullgraph=True, backend="aot_eager")
    traced = torch.jit.trace(operator, (x, weight))
    (expected,) = torch.autograd.grad(_formula(x, weight, True), x, weights)
    for one in (compiled, traced):
        (found,) = torch.autograd.grad(one(x, weight), x, weights)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5 * expected.abs().max().item())
    assert "PythonOp" not in str(traced.graph)


def test_no_copy_in_float32_is_kept_for_the_backward_pass():
    kept = []
    x, weight = _inputs(torch.bfloat16)
    with torch.autograd.graph.saved_tensors_hooks(lambda one: kept.append(one) or one, lambda one: one):
        _operator(x, weight, True)
    assert not [one for one in kept if one.dtype is torch.float32 and one.numel() >= x.numel()]
