"""The autograd function of multi-scale deformable attention (Deformable DETR and what was built on it)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping

from patcher_core import AtomicPatch, Patch, backend_of

from .autograd_function import Implementation, autograd_function_patches
from .compiled_operators import run_on_cuda
from .once_differentiable import once_differentiable

if TYPE_CHECKING:
    from torch import Tensor

_MODULE = "mmcv.ops.multi_scale_deform_attn"
_FUNCTION = f"{_MODULE}.MultiScaleDeformableAttnFunction"


class MultiScaleDeformableAttention(Patch):
    """``MultiScaleDeformableAttnFunction``: ``mx_driving``'s operator on an NPU, plain PyTorch elsewhere.

    What the NPU operator does not take (float64, empty tensors) is done in plain PyTorch. Before 2.2.0 mmcv's module
    uses the function on CUDA only, and its formula in Python elsewhere: on an NPU that formula calls the function.
    """

    name = "multi_scale_deformable_attention"
    legacy_name = "msda"
    library = "mmcv"
    backends = ("npu", "portable")
    why = "mmcv's operator has kernels for CUDA (and MLU) only"
    upstream = "mmcv/ops/multi_scale_deform_attn.py, mmcv 1.4.0 to 2.2.0"
    until = "mmcv brings a kernel for the device"

    original_runs_here = staticmethod(run_on_cuda)

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        portable = Implementation(portable_forward, portable_backward)
        npu = Implementation(npu_forward, npu_backward)
        patches = autograd_function_patches(_FUNCTION, portable, npu, fits_npu, options)
        if backend_of(options) == "npu":
            formula = f"{_MODULE}.multi_scale_deformable_attn_pytorch"
            patches.append(AtomicPatch(formula, attention_of_the_function, runtime_check=is_on_npu))
        return patches


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


def fits_npu(
    ctx: Any,
    value: Tensor,
    value_spatial_shapes: Tensor,
    value_level_start_index: Tensor,
    sampling_locations: Tensor,
    attention_weights: Tensor,
    im2col_step: int,
) -> bool:
    """True for what ``mx_driving`` takes: tensors with elements, on an NPU, in single or half precision."""
    import torch

    return (
        value.device.type == "npu"
        and value.dtype in (torch.float32, torch.float16, torch.bfloat16)
        and min(value.numel(), value_spatial_shapes.numel(), attention_weights.numel()) > 0
    )


def npu_forward(
    ctx: Any,
    value: Tensor,
    value_spatial_shapes: Tensor,
    value_level_start_index: Tensor,
    sampling_locations: Tensor,
    attention_weights: Tensor,
    im2col_step: int,
) -> Tensor:
    """``mx_driving``'s forward, which knows no ``im2col_step`` and has float32 kernels; in the dtype of ``value``."""
    import mx_driving

    ctx.is_on_npu = True
    output = mx_driving.MultiScaleDeformableAttnFunction.forward(
        ctx,
        value.float(),
        value_spatial_shapes,
        value_level_start_index,
        sampling_locations.type_as(value).float(),
        attention_weights.type_as(value).float(),
    )
    return output.to(value.dtype)


@once_differentiable
def npu_backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
    """``mx_driving``'s backward has five gradients; ``im2col_step`` gets None."""
    import mx_driving

    grad_output = grad_output.float().contiguous()
    return (*mx_driving.MultiScaleDeformableAttnFunction.backward(ctx, grad_output), None)


def is_on_npu(
    value: Tensor, value_spatial_shapes: Any, sampling_locations: Tensor, attention_weights: Tensor
) -> bool:
    """True for tensors on an NPU, the shapes too: a list of them stays with upstream's formula."""
    device = getattr(getattr(value_spatial_shapes, "device", None), "type", None)
    return value.device.type == "npu" and device == "npu"


def attention_of_the_function(
    value: Tensor, value_spatial_shapes: Tensor, sampling_locations: Tensor, attention_weights: Tensor
) -> Tensor:
    """Upstream's formula by its own autograd function, whose memory does not grow with the sampled points."""
    from mmcv.ops.multi_scale_deform_attn import MultiScaleDeformableAttnFunction

    sizes = value_spatial_shapes.prod(1)
    first_key = sizes.cumsum(0) - sizes
    return MultiScaleDeformableAttnFunction.apply(
        value, value_spatial_shapes, first_key, sampling_locations, attention_weights, 64
    )
