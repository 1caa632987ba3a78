"""bias_act and fused_bias_leakyrelu against float64 autograd of the activation functions."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")
from torch.nn import functional as F  # noqa: E402

ACTIVATIONS = {
    1: lambda t, alpha: t,
    2: lambda t, alpha: F.relu(t),
    3: lambda t, alpha: F.leaky_relu(t, alpha),
    4: lambda t, alpha: torch.tanh(t),
    5: lambda t, alpha: torch.sigmoid(t),
    6: lambda t, alpha: F.elu(t),
    7: lambda t, alpha: F.selu(t),
    8: lambda t, alpha: F.softplus(t),
    9: lambda t, alpha: torch.sigmoid(t) * t,
}
SHAPES = [((3, 4, 5), 1), ((2, 3, 2, 5), 3), ((6,), 0), ((0, 4), 1)]
DTYPES = [torch.float64, torch.float32, torch.float16]
#: Without the linear activation: upstream keeps no output of it, so that its derivative ignores the clamp.
CLAMPED = [(act, 0.7) for act in ACTIVATIONS if act != 1]
NONE = torch.empty(0)


def steps(x, bias, dim, act, alpha, gain, clamp, grad, grad_of_slope):
    """Output; first derivative times ``grad``; second derivative times ``grad_of_slope`` and ``grad``."""
    t = (x.double() + bias.double().view([-1 if d == dim else 1 for d in range(x.dim())])).requires_grad_()
    output = ACTIVATIONS[act](t, alpha) * gain
    if clamp >= 0:
        output = output.clamp(-clamp, clamp)
    (first,) = torch.autograd.grad((output * grad.double()).sum(), t, create_graph=True)
    if not first.requires_grad:
        return output, first, torch.zeros_like(first)
    (second,) = torch.autograd.grad((first * grad_of_slope.double()).sum(), t, allow_unused=True)
    return output, first, torch.zeros_like(first) if second is None else second


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "dim"), SHAPES)
@pytest.mark.parametrize(("act", "clamp"), [(act, -1.0) for act in ACTIVATIONS] + CLAMPED)
def test_bias_act_and_both_derivatives(extension, assert_matches, act, shape, dim, clamp, dtype):
    alpha, gain = 0.2, math.sqrt(2)
    x, grad, grad_of_slope = (torch.randn(shape).to(dtype) for _ in range(3))
    bias = torch.randn(shape[dim]).to(dtype)
    output, first, second = steps(x, bias, dim, act, alpha, gain, clamp, grad, grad_of_slope)
    none = NONE.to(dtype)
    settings = {"dim": dim, "act": act, "alpha": alpha, "gain": gain, "clamp": clamp}

    y = extension.bias_act(x, bias, none, none, none, 0, **settings)
    assert y.dtype == dtype
    assert_matches(y, output)
    if clamp >= 0 and dtype == torch.float16:
        return  # a value may be clamped or not by its own rounding
    references = (x, none) if act == 9 else (none, output.detach().to(dtype))
    offset = bias if act == 9 else none
    scale = 8 if dtype == torch.float16 else 1
    assert_matches(extension.bias_act(grad, offset, *references, none, 1, **settings), first, scale)
    assert_matches(extension.bias_act(grad_of_slope, offset, *references, grad, 2, **settings), second, scale)


@pytest.mark.parametrize("clamp", [0.1, 0.7, 1.0])
@pytest.mark.parametrize("dtype", [torch.bfloat16, *DTYPES])
def test_no_gradient_passes_where_the_output_was_clamped(extension, dtype, clamp):
    x = torch.tensor([-30.0, -0.01, 0.01, 3.0, 30.0]).to(dtype)
    none = NONE.to(dtype)
    settings = {"dim": 0, "act": 3, "alpha": 0.5, "gain": 1.0, "clamp": clamp}
    y = extension.bias_act(x, none, none, none, none, 0, **settings)
    slope = extension.bias_act(torch.ones_like(x), none, none, y, none, 1, **settings)
    assert slope.tolist() == [0.0, 0.5, 1.0, 0.0, 0.0]


def test_bias_act_keeps_the_memory_layout(extension):
    x = torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    y = extension.bias_act(x, torch.randn(3), NONE, NONE, NONE, 0, 1, 3, 0.2, 1.0, -1.0)
    assert y.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"act": 10}, "found act=10, expected 1 to 9"),
        ({"bias": torch.zeros(2)}, r"found a bias of shape \(2,\) for dim=1"),
        ({"yref": torch.zeros(3)}, r"found a reference of shape \(3,\)"),
    ],
)
def test_bias_act_refuses_arguments_that_do_not_fit(extension, changes, message):
    arguments = {"input": torch.zeros(2, 3), "bias": NONE, "xref": NONE, "yref": NONE, "dy": NONE}
    settings = {"grad": 0, "dim": 1, "act": 1, "alpha": 0.0, "gain": 1.0, "clamp": -1.0}
    with pytest.raises(RuntimeError, match=message):
        extension.bias_act(**{**arguments, **settings, **changes})


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 4, 5, 2), (2, 3), (0, 3, 2)])
@pytest.mark.parametrize("act", [1, 3])
def test_fused_bias_leakyrelu_and_gradient(extension, assert_matches, shape, dtype, act):
    alpha, scale = 0.2, math.sqrt(2)
    x, bias, grad = (
        torch.randn(shape).to(dtype),
        torch.randn(shape[1]).to(dtype),
        torch.randn(shape).to(dtype),
    )
    none = NONE.to(dtype)
    t = (x.double() + bias.double().view([-1] + [1] * (len(shape) - 2))).requires_grad_()
    expected = ACTIVATIONS[act](t, alpha) * scale
    (slope,) = torch.autograd.grad(expected, t, grad.double())

    output = extension.fused_bias_leakyrelu(x, bias, none, act=act, grad=0, alpha=alpha, scale=scale)
    assert_matches(output, expected)
    result = extension.fused_bias_leakyrelu(grad, none, output, act=act, grad=1, alpha=alpha, scale=scale)
    assert result.dtype == dtype
    assert_matches(result, slope)
    second = extension.fused_bias_leakyrelu(grad, none, output, act=act, grad=2, alpha=alpha, scale=scale)
    assert second.shape == x.shape and not second.any()
