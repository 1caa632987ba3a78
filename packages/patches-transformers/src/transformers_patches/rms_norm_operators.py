"""The operator that the known forms of RMSNorm are written in, on every backend."""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch import Tensor
from torch.nn import functional

#: ``rms_norm(x, weight, epsilon, rounds_first=False)``; a weight of None means no weight.
RmsNorm = Callable[..., Tensor]


def portable_rms_norm(x: Tensor, weight: Tensor | None, epsilon: float, rounds_first: bool = False) -> Tensor:
    """RMSNorm of ``x`` (..., N), computed in float32, in plain PyTorch.

    Args:
        weight: (N,) or a scalar, or None.
        rounds_first: round to the dtype of ``x``, then multiply by the weight (the dtype of the result is the one that
            this gives); otherwise multiply in float32, then round.
    """
    dtype = x.dtype if rounds_first or weight is None else torch.float32
    normalised = _normalised(x, epsilon, dtype)
    if weight is None:
        return normalised
    return weight * normalised if rounds_first else (weight.float() * normalised).to(x.dtype)


def _normalised(x: Tensor, epsilon: float, dtype: torch.dtype) -> Tensor:
    """Without a weight, rounded to ``dtype``."""
    if torch.is_grad_enabled() and not torch.compiler.is_compiling() and not torch.jit.is_tracing():
        result: Tensor = _Normalisation.apply(x, epsilon, dtype)[0]
        return result
    return functional.rms_norm(x.float(), x.shape[-1:], None, epsilon).to(dtype)


class _Normalisation(torch.autograd.Function):
    """It keeps ``x`` and one number a row, where upstream's operators keep three tensors like ``x`` in float32.

    With ``r = 1 / sqrt(mean(x²) + epsilon)`` the derivative of ``x r`` is ``r (I - x xᵀ r² / N)``, which is symmetric.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, epsilon: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        wide = x.float()
        root = _reciprocal_root(wide, epsilon)
        return (wide * root).to(dtype), root

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        x, ctx.epsilon, ctx.dtype = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, output[1])
        ctx.save_for_forward(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: None) -> tuple[Tensor | None, ...]:
        x, root = ctx.saved_tensors
        if torch.is_grad_enabled():  # what was kept has no derivative
            root = _reciprocal_root(x.float(), ctx.epsilon)
        return _derivative(x, root, gradient).to(x.dtype), None, None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *_: None) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        return _derivative(x, _reciprocal_root(x.float(), ctx.epsilon), tangent).to(ctx.dtype), None


def _reciprocal_root(x: Tensor, epsilon: float) -> Tensor:
    return torch.rsqrt(x.square().mean(-1, keepdim=True) + epsilon)


def _derivative(x: Tensor, root: Tensor, vector: Tensor) -> Tensor:
    """The derivative at ``x`` times a vector, in float32."""
    x, vector = x.float(), vector.float()
    share = (x * vector).mean(-1, keepdim=True) * root.square()
    return torch.addcmul(vector, x, share, value=-1) * root


_NPU_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def npu_rms_norm(x: Tensor, weight: Tensor | None, epsilon: float, rounds_first: bool = False) -> Tensor:
    """The same with ``torch_npu.npu_rms_norm``, which multiplies in float32 and keeps the dtype of ``x``.

    What is not on an NPU, or in a dtype that the operator does not take, is computed by :func:`portable_rms_norm`.
    """
    if x.device.type != "npu" or x.dtype not in _NPU_DTYPES:
        return portable_rms_norm(x, weight, epsilon, rounds_first)
    import torch_npu

    if weight is None or (rounds_first and weight.dtype != x.dtype):
        # Upstream's product takes the wider dtype, where the operator would keep that of x.
        unscaled = torch_npu.npu_rms_norm(x, x.new_ones(x.shape[-1]), epsilon=epsilon)[0]
        return unscaled if weight is None else weight * unscaled
    return torch_npu.npu_rms_norm(x, weight.expand(x.shape[-1]), epsilon=epsilon)[0]


OPERATORS = {"portable": portable_rms_norm, "npu": npu_rms_norm}
