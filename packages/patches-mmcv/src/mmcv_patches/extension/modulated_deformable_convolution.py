"""Deformable convolution, second version: shifted samples, each times a mask, and a bias.

See ``deformable_columns`` for the formula.
"""

from __future__ import annotations

from torch import Tensor

from .deformable_columns import Geometry, add_weight_gradient, convolve, input_gradients
from .precision import to_accumulation_dtype

__all__ = ["modulated_deform_conv_backward", "modulated_deform_conv_forward"]


def modulated_deform_conv_forward(
    input: Tensor,
    weight: Tensor,
    bias: Tensor,
    ones: Tensor,
    offset: Tensor,
    mask: Tensor,
    output: Tensor,
    columns: Tensor,
    kernel_h: int,
    kernel_w: int,
    stride_h: int,
    stride_w: int,
    pad_h: int,
    pad_w: int,
    dilation_h: int,
    dilation_w: int,
    group: int,
    deformable_group: int,
    with_bias: bool,
) -> None:
    """Write the convolution to ``output``; ``bias`` (outputs,) counts ``with_bias``.

    ``ones`` and ``columns`` are scratch memory of the compiled operator and not used.

    Raises RuntimeError on shapes that do not fit one another.
    """
    geometry = Geometry(
        (kernel_h, kernel_w),
        (stride_h, stride_w),
        (pad_h, pad_w),
        (dilation_h, dilation_w),
        group,
        deformable_group,
    )
    convolve(geometry, input, weight, offset, mask, output)
    if with_bias:
        output += bias.view(1, -1, 1, 1)


def modulated_deform_conv_backward(
    input: Tensor,
    weight: Tensor,
    bias: Tensor,
    ones: Tensor,
    offset: Tensor,
    mask: Tensor,
    columns: Tensor,
    grad_input: Tensor,
    grad_weight: Tensor,
    grad_bias: Tensor,
    grad_offset: Tensor,
    grad_mask: Tensor,
    grad_output: Tensor,
    kernel_h: int,
    kernel_w: int,
    stride_h: int,
    stride_w: int,
    pad_h: int,
    pad_w: int,
    dilation_h: int,
    dilation_w: int,
    group: int,
    deformable_group: int,
    with_bias: bool,
) -> None:
    """Add the gradients for input, weight and bias to theirs; overwrite those for offset and mask."""
    geometry = Geometry(
        (kernel_h, kernel_w),
        (stride_h, stride_w),
        (pad_h, pad_w),
        (dilation_h, dilation_w),
        group,
        deformable_group,
    )
    input_gradients(geometry, input, weight, offset, mask, grad_output, grad_input, grad_offset, grad_mask)
    add_weight_gradient(geometry, input, offset, mask, grad_output, grad_weight)
    if with_bias:
        grad_bias += to_accumulation_dtype(grad_output).sum((0, 2, 3)).to(grad_bias.dtype)
