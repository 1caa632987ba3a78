"""The autograd function of deformable convolution, second version: with a mask and a bias (DCNv2)."""

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

_FUNCTION = "mmcv.ops.modulated_deform_conv.ModulatedDeformConv2dFunction"


class ModulatedDeformConv(Patch):
    """``ModulatedDeformConv2dFunction``: ``mx_driving``'s operator on an NPU, plain PyTorch elsewhere.

    ``modulated_deform_conv2d``, ``ModulatedDeformConv2d``, ``ModulatedDeformConv2dPack`` and what registries hold of
    them ("DCNv2") stay mmcv's own and run the replacement. The NPU operator drops the bias, which is added here. What
    it does not take (kernels other than 3 x 3, channels that are no multiple of 64), or is not known to compute as CUDA
    does (several deformable groups, float64, an empty batch), is done in plain PyTorch.
    """

    name = "modulated_deform_conv"
    legacy_name = "mdc"
    library = "mmcv"
    backends = ("npu", "portable")
    why = "mmcv's own kernels are for the CPU, CUDA and MLU, and have to be compiled"
    upstream = "mmcv/ops/modulated_deform_conv.py, mmcv 1.4.0 to 2.2.0"
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
    mask: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] = 0,
    dilation: int | tuple[int, ...] = 1,
    groups: int = 1,
    deform_groups: int = 1,
) -> Tensor:
    """Convolve shifted and weighted samples, see :mod:`mmcv_patches.extension.deformable_columns` for the formula.

    ``input`` (N, C, H, W), ``offset`` (N, 2 * deform_groups * kernel elements, out H, out W) as row and column of each
    element, in pixels, ``mask`` with half as many channels, ``weight`` (outputs, C / groups, kernel H, kernel W),
    ``bias`` (outputs,). As upstream does, all are cast to the dtype of ``offset``, which autocast chooses.

    Raises:
        ValueError: ``input`` is not 4-D, or too small for the kernel.
        RuntimeError: shapes that do not fit one another.
    """
    from .extension.calling import like_a_compiled_function
    from .extension.modulated_deformable_convolution import modulated_deform_conv_forward

    size = output_size(input, weight, stride, padding, dilation)
    with_bias = bias is not None
    bias = input.new_empty(0) if bias is None else bias
    input, mask, weight, bias = (tensor.type_as(offset) for tensor in (input, mask, weight, bias))
    ctx.save_for_backward(input, offset, mask, weight, bias)
    ctx.settings = _settings(weight, stride, padding, dilation, groups, deform_groups, with_bias)
    output, scratch = input.new_empty(size), input.new_empty(0)
    forward = like_a_compiled_function(modulated_deform_conv_forward)
    forward(input, weight, bias, scratch, offset, mask, output, scratch, **ctx.settings)
    return output


@once_differentiable
def portable_backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
    """Gradients of :func:`portable_forward` by input, offset, mask, weight and bias."""
    import torch

    from .extension.calling import like_a_compiled_function
    from .extension.modulated_deformable_convolution import modulated_deform_conv_backward

    input, offset, mask, weight, bias = saved = ctx.saved_tensors
    grad_input, grad_offset, grad_mask, grad_weight, grad_bias = gradients = tuple(
        map(torch.zeros_like, saved)
    )
    scratch = input.new_empty(0)
    like_a_compiled_function(modulated_deform_conv_backward)(
        input,
        weight,
        bias,
        scratch,
        offset,
        mask,
        scratch,
        grad_input,
        grad_weight,
        grad_bias,
        grad_offset,
        grad_mask,
        grad_output.contiguous(),
        **ctx.settings,
    )
    return (*gradients[:4], grad_bias if ctx.settings["with_bias"] else None, *[None] * 5)


def fits_npu(
    ctx: Any,
    input: Tensor,
    offset: Tensor,
    mask: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] = 0,
    dilation: int | tuple[int, ...] = 1,
    groups: int = 1,
    deform_groups: int = 1,
) -> bool:
    """True for what ``mx_driving`` takes: 3 x 3 kernels and channels in multiples of 64, single or half precision.

    Wrong arguments go to the portable function, which says what is wrong with them.
    """
    return (
        npu_deformable_convolution.takes(input, offset, weight, groups, deform_groups)
        and tuple(weight.shape[2:]) == (3, 3)
        and input.shape[1] % 64 == 0
        and weight.shape[0] % 64 == 0
    )


def npu_forward(
    ctx: Any,
    input: Tensor,
    offset: Tensor,
    mask: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] = 0,
    dilation: int | tuple[int, ...] = 1,
    groups: int = 1,
    deform_groups: int = 1,
) -> Tensor:
    """``mx_driving``'s forward, whose kernels are float32 only, and the bias; in the dtype of ``offset``.

    Raises:
        ValueError: ``input`` is too small for the kernel.
    """
    import mx_driving

    output_size(input, weight, stride, padding, dilation)
    ctx.is_on_npu = True
    ctx.with_bias = bias is not None
    tensors = (tensor.type_as(offset).float() for tensor in (input, offset, mask, weight))
    output = mx_driving.ModulatedDeformConv2dFunction.forward(
        ctx, *tensors, None, stride, padding, dilation, groups, deform_groups
    )
    if bias is not None:
        output = output + bias.type_as(offset).to(output.dtype).view(1, -1, 1, 1)
    return output.to(offset.dtype)


@once_differentiable
def npu_backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
    """``mx_driving``'s gradients, and that of the bias; autograd casts them to the dtypes of what they belong to."""
    import mx_driving

    grad_output = grad_output.float()
    gradients = mx_driving.ModulatedDeformConv2dFunction.backward(ctx, grad_output)
    grad_bias = grad_output.sum((0, 2, 3)) if ctx.with_bias else None
    return (*gradients[:4], grad_bias, *[None] * 5)


def _settings(
    weight: Tensor, stride: Any, padding: Any, dilation: Any, groups: int, deform_groups: int, with_bias: bool
) -> dict[str, int]:
    """The numbers of a convolution by the names that the extension's functions give them."""
    values: dict[str, int] = {"group": groups, "deformable_group": deform_groups, "with_bias": with_bias}
    named = (("kernel", weight.shape[2:]), ("stride", stride), ("pad", padding), ("dilation", dilation))
    for name, numbers in named:
        values[f"{name}_h"], values[f"{name}_w"] = pair(numbers)
    return values
