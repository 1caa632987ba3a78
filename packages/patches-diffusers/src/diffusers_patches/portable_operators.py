"""The operators of the structural patches in plain PyTorch, for any device: upstream's numbers to the bit."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

HALF_DTYPES = (torch.float16, torch.bfloat16)


def normalised(x: Tensor, epsilon: float) -> Tensor:
    """``x / sqrt(mean(x²) + epsilon)`` over the last dimension; float32, of a float64 ``x`` float64.

    The mean is taken in float32 in either case, as diffusers does.
    """
    if x.dtype == torch.float64:
        return x * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + epsilon)
    return functional.rms_norm(x.float(), x.shape[-1:], None, epsilon)


def rms_norm_in_dtype_of_weight(x: Tensor, weight: Tensor | None, epsilon: float) -> Tensor:
    """:func:`normalised`, rounded to the dtype of a half-precision ``weight`` (N,), then multiplied by it.

    By a wider weight it is multiplied in float32, and the result is float32. Without one it has the dtype of ``x``.
    """
    result = normalised(x, epsilon)
    if weight is None:
        return result.to(x.dtype)
    if weight.dtype in HALF_DTYPES:
        result = result.to(weight.dtype)
    return result * weight


def rms_norm_in_dtype_of_input(x: Tensor, weight: Tensor | None, epsilon: float) -> Tensor:
    """:func:`normalised`, multiplied by ``weight`` (N,) in float32 and rounded once, to the dtype of ``x``."""
    result = normalised(x, epsilon)
    return (result if weight is None else result * weight).to(x.dtype)


def geglu(x: Tensor) -> Tensor:
    """First half times gelu(second half) of the last dimension, in the erf form."""
    value, gate = x.chunk(2, dim=-1)
    return value * functional.gelu(gate)


def gelu(x: Tensor, approximate: str) -> Tensor:
    """``approximate``: ``"none"`` for the erf form, ``"tanh"``."""
    return functional.gelu(x, approximate=approximate)


def sigmoid_gelu(x: Tensor) -> Tensor:
    """``x * sigmoid(1.702 x)`` (Hendrycks and Gimpel, 2016, https://arxiv.org/abs/1606.08415)."""
    return x * torch.sigmoid(1.702 * x)


def rotated(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
    """Pairs (a, b) of channels become (a cos - b sin, b cos + a sin), in float32, rounded to the dtype of ``x``.

    Args:
        x: (..., D), D even; cos, sin: (..., D), broadcast over ``x``.
        interleaved: pairs are neighbours; otherwise they lie half of D apart.
    """
    wide = x.float()
    if interleaved:
        (a, b), (cos_a, cos_b), (sin_a, sin_b) = ((t[..., ::2], t[..., 1::2]) for t in (wide, cos, sin))
        result = torch.stack((a * cos_a - b * sin_a, b * cos_b + a * sin_b), dim=-1).flatten(-2)
    else:
        (a, b), (cos_a, cos_b), (sin_a, sin_b) = (t.chunk(2, dim=-1) for t in (wide, cos, sin))
        result = torch.cat((a * cos_a - b * sin_a, b * cos_b + a * sin_b), dim=-1)
    return result.to(x.dtype)
