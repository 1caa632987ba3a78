"""Bias, activation, gain and clamp in one function, with the derivatives that StyleGAN's training needs.

``bias_act`` of StyleGAN3 (Karras et al., 2021) as in mmcv 2.1.0 (``bias_act_cuda.cu``) and
``fused_bias_leakyrelu`` of StyleGAN2 (``fused_bias_leakyrelu_cuda.cu``). An empty tensor means "not given".
Half precision is computed in float32.
"""

from __future__ import annotations

from typing import Callable, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from .precision import accumulation_dtype

__all__ = ["bias_act", "fused_bias_leakyrelu"]

_SELU_SCALE = 1.0507009873554804934193349852946
_SELU_ALPHA = 1.6732632423543772848170429916717


def bias_act(
    input: Tensor,
    bias: Tensor,
    xref: Tensor,
    yref: Tensor,
    dy: Tensor,
    grad: int,
    dim: int,
    act: int,
    alpha: float,
    gain: float,
    clamp: float,
) -> Tensor:
    """The activation of ``input + bias``, or its first or second derivative times ``input``.

    - ``grad`` 0: ``clip(f(input + bias) gain)``; ``bias`` runs along dimension ``dim``.
    - ``grad`` 1: ``input`` is a gradient; the result is ``input f'(t) gain``.
    - ``grad`` 2: ``input`` is a gradient of the first derivative; the result is ``input f''(t) gain dy``.

    In both derivatives ``t`` is known by ``xref + bias`` (swish) or by ``yref``, the output of grad 0 (all
    others); where the output was clamped, the result is 0. ``clamp`` negative means none. ``act`` is 1
    linear, 2 relu, 3 leaky relu with slope ``alpha``, 4 tanh, 5 sigmoid, 6 elu, 7 selu, 8 softplus, 9
    swish. The result has the shape, dtype and memory layout of ``input``.

    Raises:
        RuntimeError: ``act`` is unknown, or a given tensor does not fit ``input``.
    """
    _check(input, bias, (xref, yref, dy), dim, act)
    x = input.to(accumulation_dtype(input))
    offset = (
        bias.to(x.dtype).view([-1 if axis == dim else 1 for axis in range(x.dim())]) if bias.numel() else 0
    )
    activation = _ACTIVATIONS[act]
    if grad == 0:
        y = activation.value(x + offset, alpha) * gain
        return (y.clamp(-clamp, clamp) if clamp >= 0 else y).to(input.dtype)
    if activation is _SWISH:
        known = _given_or_zero(xref, x) + offset
        output = F.silu(known) * gain
    else:
        output = _given_or_zero(yref, x)
        known = output / gain if gain else torch.zeros_like(output)
    derivative = activation.first if grad == 1 else activation.second
    y = x * derivative(known, alpha) * gain
    if dy.numel():
        y = y * dy.to(x.dtype)
    if clamp >= 0:
        # A clamped output is the bound in its own dtype, which may be the smaller one.
        bound = torch.tensor(clamp, dtype=x.dtype if activation is _SWISH else yref.dtype, device=x.device)
        y = y.masked_fill(output.abs() >= bound.to(x.dtype), 0)
    return y.to(input.dtype)


def fused_bias_leakyrelu(
    input: Tensor, bias: Tensor, empty: Tensor, act: int, grad: int, alpha: float, scale: float
) -> Tensor:
    """``scale f(input + bias)`` with ``f`` the identity (``act`` 1) or the leaky relu (``act`` 3).

    ``bias`` runs along dimension 1. With ``grad`` 1 the slope is chosen by the sign of ``empty``, which then
    is the output of ``grad`` 0, instead of by that of the sum; with ``grad`` 2 the result is 0. ``alpha`` is
    the negative slope. Returns a contiguous tensor of the shape and dtype of ``input``.
    """
    if grad == 2:
        return torch.zeros_like(input, memory_format=torch.contiguous_format)
    x = input.to(accumulation_dtype(input))
    if bias.numel():
        x = x + bias.to(x.dtype).view([-1] + [1] * (input.dim() - 2))
    if act == 3:
        x = torch.where(_given_or_zero(empty, x) > 0, x, x * alpha) if grad == 1 else F.leaky_relu(x, alpha)
    return (x * scale).to(input.dtype).contiguous()


class _Activation(NamedTuple):
    #: f(t, alpha)
    value: Callable[[Tensor, float], Tensor]
    #: f' and f'', as functions of y = f(t) and alpha; those of swish are functions of t.
    first: Callable[[Tensor, float], Tensor]
    second: Callable[[Tensor, float], Tensor]


def _zero(y: Tensor, _alpha: float) -> Tensor:
    return torch.zeros_like(y)


def _one(y: Tensor, _alpha: float) -> Tensor:
    return torch.ones_like(y)


def _slope(y: Tensor, alpha: float) -> Tensor:
    return torch.where(y > 0, torch.ones_like(y), torch.full_like(y, alpha))


def _elu_slope(y: Tensor, _alpha: float) -> Tensor:
    return torch.where(y >= 0, torch.ones_like(y), y + 1)


def _elu_curvature(y: Tensor, _alpha: float) -> Tensor:
    return torch.where(y >= 0, torch.zeros_like(y), y + 1)


def _selu_slope(y: Tensor, _alpha: float) -> Tensor:
    return torch.where(y >= 0, torch.full_like(y, _SELU_SCALE), y + _SELU_SCALE * _SELU_ALPHA)


def _selu_curvature(y: Tensor, _alpha: float) -> Tensor:
    return torch.where(y >= 0, torch.zeros_like(y), y + _SELU_SCALE * _SELU_ALPHA)


def _swish_slope(t: Tensor, _alpha: float) -> Tensor:
    s = t.sigmoid()
    return s * (1 + t * (1 - s))


def _swish_curvature(t: Tensor, _alpha: float) -> Tensor:
    s = t.sigmoid()
    return s * (1 - s) * (2 + t * (1 - 2 * s))


_SWISH = _Activation(lambda t, _: F.silu(t), _swish_slope, _swish_curvature)
_ACTIVATIONS = {
    1: _Activation(lambda t, _: t, _one, _zero),
    2: _Activation(lambda t, _: t.relu(), lambda y, _: _slope(y, 0.0), _zero),
    3: _Activation(F.leaky_relu, _slope, _zero),
    4: _Activation(lambda t, _: t.tanh(), lambda y, _: 1 - y * y, lambda y, _: (1 - y * y) * -2 * y),
    5: _Activation(
        lambda t, _: t.sigmoid(), lambda y, _: y * (1 - y), lambda y, _: y * (1 - y) * (1 - 2 * y)
    ),
    6: _Activation(lambda t, _: F.elu(t), _elu_slope, _elu_curvature),
    7: _Activation(lambda t, _: F.selu(t), _selu_slope, _selu_curvature),
    8: _Activation(
        lambda t, _: F.softplus(t, threshold=80.0),
        lambda y, _: 1 - (-y).exp(),
        lambda y, _: (-y).exp() * (1 - (-y).exp()),
    ),
    9: _SWISH,
}


def _given_or_zero(tensor: Tensor, like: Tensor) -> Tensor:
    return tensor.to(like.dtype) if tensor.numel() else like.new_zeros(())


def _check(input: Tensor, bias: Tensor, references: tuple[Tensor, ...], dim: int, act: int) -> None:
    if act not in _ACTIVATIONS:
        raise RuntimeError(f"bias_act: found act={act}, expected 1 to 9 (mmcv.ops.bias_act.activation_funcs)")
    if bias.numel() and not (bias.dim() == 1 and 0 <= dim < input.dim() and len(bias) == input.shape[dim]):
        raise RuntimeError(
            f"bias_act: found a bias of shape {tuple(bias.shape)} for dim={dim}, expected one value for each "
            f"of that dimension of the input, {tuple(input.shape)}"
        )
    for reference in references:
        if reference.numel() and reference.shape != input.shape:
            raise RuntimeError(
                f"bias_act: found a reference of shape {tuple(reference.shape)}, expected that of the input, "
                f"{tuple(input.shape)}"
            )
