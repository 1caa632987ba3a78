"""The operator that the known forms of rotary position embedding are written in, on every backend."""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch import Tensor

#: ``rotary_mul(x, cos, sin, interleaved)``
RotaryMul = Callable[[Tensor, Tensor, Tensor, bool], Tensor]


def portable_rotary_mul(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
    """``x * cos + rotated(x) * sin`` for even D, without the rotated copy.

    Args:
        x: (..., D); cos, sin: (..., D), broadcast over ``x``.
        interleaved: pairs are neighbours; otherwise they lie half of D apart.
    """
    if torch.compiler.is_compiling() or torch.jit.is_tracing():
        return _rotated_in_new_tensors(x, cos, sin, interleaved)  # the compiler makes one loop of it
    if not torch.is_grad_enabled():
        return _rotated_in_place(x, cos, sin, interleaved)
    if cos.requires_grad or sin.requires_grad:
        return _rotated_in_new_tensors(x, cos, sin, interleaved)
    result: Tensor = _RotationOfConstantAngle.apply(x, cos, sin, interleaved)
    return result


def _halves(t: Tensor, interleaved: bool) -> tuple[Tensor, Tensor]:
    """The first and the second channels of all pairs."""
    if interleaved:
        return t[..., ::2], t[..., 1::2]
    a, b = t.chunk(2, dim=-1)
    return a, b


def _joined(a: Tensor, b: Tensor, interleaved: bool) -> Tensor:
    return torch.stack((a, b), dim=-1).flatten(-2) if interleaved else torch.cat((a, b), dim=-1)


def _rotated_in_new_tensors(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
    (a, b), (cos_a, cos_b), (sin_a, sin_b) = (_halves(t, interleaved) for t in (x, cos, sin))
    return _joined(a * cos_a - b * sin_a, b * cos_b + a * sin_b, interleaved)


def _rotated_in_place(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
    """The same with fewer passes over memory; its own gradient would take more of them."""
    (a, b), (sin_a, sin_b) = (_halves(t, interleaved) for t in (x, sin))
    result = x * cos
    result_a, result_b = _halves(result, interleaved)
    result_a.sub_(b * sin_a)
    result_b.add_(a * sin_b)
    return result


class _RotationOfConstantAngle(torch.autograd.Function):
    """Its derivative by ``x`` is a rotation, backwards: so it is written with itself, and can be derived again."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
        return _rotated_in_place(x, cos, sin, interleaved)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, cos, sin, ctx.interleaved = inputs
        ctx.save_for_backward(cos, sin)
        ctx.save_for_forward(cos, sin)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        cos, sin = ctx.saved_tensors
        sin_a, sin_b = _halves(sin, ctx.interleaved)
        transposed = _joined(-sin_b, -sin_a, ctx.interleaved)
        return portable_rotary_mul(gradient, cos, transposed, ctx.interleaved), None, None, None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *_: None) -> Tensor:
        cos, sin = ctx.saved_tensors
        return portable_rotary_mul(tangent, cos, sin, ctx.interleaved)


_NPU_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def npu_rotary_mul(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
    """The same with ``torch_npu.npu_rotary_mul``, which takes four dimensions and one dtype.

    What is not on an NPU, or has more dimensions or another dtype, is computed by :func:`portable_rotary_mul`.
    """
    dtype = torch.promote_types(x.dtype, cos.dtype)
    if x.device.type != "npu" or x.dim() > 4 or dtype not in _NPU_DTYPES:
        return portable_rotary_mul(x, cos, sin, interleaved)
    import torch_npu

    x4, cos4, sin4 = (t.to(dtype).reshape((1,) * (4 - t.dim()) + t.shape) for t in (x, cos, sin))
    return torch_npu.npu_rotary_mul(x4, cos4, sin4, "interleave" if interleaved else "half").reshape(x.shape)


OPERATORS = {"portable": portable_rotary_mul, "npu": npu_rotary_mul}
