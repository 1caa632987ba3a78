"""The autograd function of multi-scale deformable attention (Deformable DETR and what was built on it)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping

from patcher_core import AtomicPatch, Patch

from .once_differentiable import once_differentiable

if TYPE_CHECKING:
    from torch import Tensor

_FUNCTION = "mmcv.ops.multi_scale_deform_attn.MultiScaleDeformableAttnFunction"


class MultiScaleDeformableAttention(Patch):
    """``MultiScaleDeformableAttnFunction``: ``mx_driving``'s operator on an NPU, plain PyTorch elsewhere."""

    name = "multi_scale_deformable_attention"
    legacy_name = "msda"
    library = "mmcv"
    backends = ("npu", "portable")
    why = "mmcv's operator has kernels for CUDA (and MLU) only"
    upstream = "mmcv/ops/multi_scale_deform_attn.py, mmcv 1.4.0 to 2.2.0"
    until = "mmcv brings a kernel for the device"

    @staticmethod
    def original_runs_here() -> bool:
        """Whether mmcv's own kernel can run: it is compiled, and a CUDA device is there."""
        from .compiled_operators import run_on_cuda

        return run_on_cuda()

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        backend = (options or {}).get("backend", "portable")
        forward, backward = (
            (npu_forward, npu_backward) if backend == "npu" else (portable_forward, portable_backward)
        )
        return [AtomicPatch(f"{_FUNCTION}.forward", forward), AtomicPatch(f"{_FUNCTION}.backward", backward)]


def portable_forward(
    ctx: Any,
    value: Tensor,
    value_spatial_shapes: Tensor,
    value_level_start_index: Tensor,
    sampling_locations: Tensor,
    attention_weights: Tensor,
    im2col_step: int,
) -> Tensor:
    """Attend to sampled points, see :mod:`mmcv_patches.extension.deformable_attention` for shapes and formula.

    As upstream does, locations and weights are cast to the dtype of ``value``, which decides under autocast.
    """
    from .extension.calling import like_a_compiled_function
    from .extension.deformable_attention import ms_deform_attn_forward

    saved = (
        value,
        value_spatial_shapes,
        value_level_start_index,
        sampling_locations.type_as(value),
        attention_weights.type_as(value),
    )
    ctx.save_for_backward(*saved)
    return like_a_compiled_function(ms_deform_attn_forward)(*saved, im2col_step=im2col_step)


@once_differentiable
def portable_backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
    """Gradients of :func:`portable_forward` for its six arguments; shapes, starts and ``im2col_step`` have none."""
    import torch

    from .extension.calling import like_a_compiled_function
    from .extension.deformable_attention import ms_deform_attn_backward

    value, _, _, locations, weights = ctx.saved_tensors
    gradients = tuple(map(torch.zeros_like, (value, locations, weights)))
    like_a_compiled_function(ms_deform_attn_backward)(
        *ctx.saved_tensors, grad_output.contiguous(), *gradients, im2col_step=0
    )
    grad_value, grad_locations, grad_weights = gradients
    return grad_value, None, None, grad_locations, grad_weights, None


def npu_forward(
    ctx: Any,
    value: Tensor,
    value_spatial_shapes: Tensor,
    value_level_start_index: Tensor,
    sampling_locations: Tensor,
    attention_weights: Tensor,
    im2col_step: int,
) -> Tensor:
    """``mx_driving``'s forward, which knows no ``im2col_step``."""
    import mx_driving

    return mx_driving.MultiScaleDeformableAttnFunction.forward(
        ctx, value, value_spatial_shapes, value_level_start_index, sampling_locations, attention_weights
    )


@once_differentiable
def npu_backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
    """``mx_driving``'s backward has five gradients; ``im2col_step`` gets None."""
    import mx_driving

    return (*mx_driving.MultiScaleDeformableAttnFunction.backward(ctx, grad_output), None)
