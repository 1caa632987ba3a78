"""The autograd function of deformable convolution, first version (DCN backbones of mmdet)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping

from patcher_core import Patch

from . import npu_deformable_convolution
from .autograd_function import Implementation, autograd_function_patches
from .compiled_operators import are_installed
from .convolution_size import output_size, pair
from .once_differentiable import once_differentiable

if TYPE_CHECKING:
    from torch import Tensor

_FUNCTION = "mmcv.ops.deform_conv.DeformConv2dFunction"


class DeformConv(Patch):
    """``DeformConv2dFunction``: ``mx_driving``'s operator on an NPU, plain PyTorch elsewhere.

    ``deform_conv2d``, ``DeformConv2d``, ``DeformConv2dPack`` and what registries hold of them ("DCN") stay mmcv's own
    and run the replacement. What the NPU operator is not known to compute as CUDA does (several deformable groups,
    float64, an empty batch) is done in plain PyTorch.
    """

    name = "deform_conv"
    legacy_name = "dc"
    library = "mmcv"
    backends = ("npu", "portable")
    why = "mmcv's own kernels are for the CPU, CUDA and MLU, and have to be compiled"
    upstream = "mmcv/ops/deform_conv.py, mmcv 1.4.0 to 2.2.0"
    until = "mmcv brings a kernel for the device"

    original_runs_here = staticmethod(are_installed)  # on the CPU and on CUDA

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        portable = Implementation(portable_forward, portable_backward)
        npu = Implementation(npu_forward, npu_backward)
        return autograd_function_patches(_FUNCTION, portable, npu, fits_npu, options)


def portable_forward(
    ctx: Any,
    input: Tensor,
    offset: Tensor,
    weight: Tensor,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] = 0,
    dilation: int | tuple[int, ...] = 1,
    groups: int = 1,
    deform_groups: int = 1,
    bias: bool = False,
    im2col_step: int = 32,
) -> Tensor:
    """Convolve shifted samples, see :mod:`mmcv_patches.extension.deformable_columns` for the formula.

    ``input`` (N, C, H, W), ``offset`` (N, 2 * deform_groups * kernel elements, out H, out W) as row and column of each
    element, in pixels, ``weight`` (outputs, C / groups, kernel H, kernel W). As upstream does, input and weight are
    cast to the dtype of ``offset``, which autocast chooses.

    Raises:
        ValueError: ``input`` is not 4-D, or too small for the kernel.
        AssertionError: ``bias`` is not False, or the batch is no multiple of ``im2col_step``.
        RuntimeError: shapes that do not fit one another.
    """
    from .extension.calling import like_a_compiled_function
    from .extension.deformable_convolution import deform_conv_forward

    assert bias is False, "DeformConv2dFunction has no bias: add it to the output"
    size = output_size(input, weight, stride, padding, dilation)
    input = input.type_as(offset)
    weight = weight.type_as(offset)
    step = min(im2col_step, len(input))
    assert not step or len(input) % step == 0, f"a batch of {len(input)} is no multiple of im2col_step {step}"
    ctx.save_for_backward(input, offset, weight)
    ctx.settings = _settings(weight, stride, padding, dilation, groups, deform_groups, step)
    output, scratch = input.new_empty(size), input.new_empty(0)
    forward = like_a_compiled_function(deform_conv_forward)
    forward(input, weight, offset, output, scratch, scratch, **ctx.settings)
    return output


@once_differentiable
def portable_backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
    """Gradients of :func:`portable_forward` by input, offset and weight."""
    import torch

    from .extension.calling import like_a_compiled_function
    from .extension.deformable_convolution import deform_conv_backward_input, deform_conv_backward_parameters

    input, offset, weight = ctx.saved_tensors
    grad_output, scratch = grad_output.contiguous(), input.new_empty(0)
    grad_input = grad_offset = grad_weight = None
    if any(ctx.needs_input_grad[:2]):
        grad_input, grad_offset = torch.zeros_like(input), torch.zeros_like(offset)
        like_a_compiled_function(deform_conv_backward_input)(
            input, offset, grad_output, grad_input, grad_offset, weight, scratch, **ctx.settings
        )
    if ctx.needs_input_grad[2]:
        grad_weight = torch.zeros_like(weight)
        like_a_compiled_function(deform_conv_backward_parameters)(
            input, offset, grad_output, grad_weight, scratch, scratch, scale=1.0, **ctx.settings
        )
    return (grad_input, grad_offset, grad_weight, *[None] * 7)


def fits_npu(
    ctx: Any,
    input: Tensor,
    offset: Tensor,
    weight: Tensor,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] = 0,
    dilation: int | tuple[int, ...] = 1,
    groups: int = 1,
    deform_groups: int = 1,
    bias: bool = False,
    im2col_step: int = 32,
) -> bool:
    """True for what ``mx_driving`` takes: a batch on an NPU, single or half precision, one deformable group.

    Wrong arguments go to the portable function, which says what is wrong with them.
    """
    return npu_deformable_convolution.takes(input, offset, weight, groups, deform_groups) and bias is False


def npu_forward(
    ctx: Any,
    input: Tensor,
    offset: Tensor,
    weight: Tensor,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] = 0,
    dilation: int | tuple[int, ...] = 1,
    groups: int = 1,
    deform_groups: int = 1,
    bias: bool = False,
    im2col_step: int = 32,
) -> Tensor:
    """``mx_driving``'s forward, whose kernels are float32 only; the result has the dtype of ``offset``.

    Raises:
        ValueError: ``input`` is too small for the kernel.
    """
    import mx_driving

    output_size(input, weight, stride, padding, dilation)
    ctx.is_on_npu = True
    tensors = (tensor.type_as(offset).float() for tensor in (input, offset, weight))
    output = mx_driving.DeformConv2dFunction.forward(
        ctx, *tensors, stride, padding, dilation, groups, deform_groups
    )
    return output.to(offset.dtype)


@once_differentiable
def npu_backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
    """``mx_driving``'s gradients; autograd casts them to the dtypes of what they belong to."""
    import mx_driving

    return mx_driving.DeformConv2dFunction.backward(ctx, grad_output.float())


def _settings(
    weight: Tensor, stride: Any, padding: Any, dilation: Any, groups: int, deform_groups: int, step: int
) -> dict[str, int]:
    """The numbers of a convolution by the names that the extension's functions give them."""
    values: dict[str, int] = {"group": groups, "deformable_group": deform_groups, "im2col_step": step}
    for name, numbers in (("k", weight.shape[2:]), ("d", stride), ("pad", padding), ("dilation", dilation)):
        values[f"{name}H"], values[f"{name}W"] = pair(numbers)
    return values
