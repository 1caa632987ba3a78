"""Deformable convolution, first version: shifted samples, no mask.

See ``deformable_columns`` for the formula.
"""

from __future__ import annotations

from torch import Tensor

from .deformable_columns import Geometry, add_weight_gradient, convolve, input_gradients

__all__ = ["deform_conv_backward_input", "deform_conv_backward_parameters", "deform_conv_forward"]


def deform_conv_forward(
    input: Tensor,
    weight: Tensor,
    offset: Tensor,
    output: Tensor,
    columns: Tensor,
    ones: Tensor,
    kW: int,
    kH: int,
    dW: int,
    dH: int,
    padW: int,
    padH: int,
    dilationW: int,
    dilationH: int,
    group: int,
    deformable_group: int,
    im2col_step: int,
) -> None:
    """Write the convolution to ``output``. ``columns``, ``ones`` and ``im2col_step`` are not used.

    Raises RuntimeError on shapes that do not fit one another.
    """
    geometry = Geometry((kH, kW), (dH, dW), (padH, padW), (dilationH, dilationW), group, deformable_group)
    convolve(geometry, input, weight, offset, None, output)


def deform_conv_backward_input(
    input: Tensor,
    offset: Tensor,
    gradOutput: Tensor,
    gradInput: Tensor,
    gradOffset: Tensor,
    weight: Tensor,
    columns: Tensor,
    kW: int,
    kH: int,
    dW: int,
    dH: int,
    padW: int,
    padH: int,
    dilationW: int,
    dilationH: int,
    group: int,
    deformable_group: int,
    im2col_step: int,
) -> None:
    """Add the gradient for ``input`` to ``gradInput``; overwrite ``gradOffset`` with that for ``offset``."""
    geometry = Geometry((kH, kW), (dH, dW), (padH, padW), (dilationH, dilationW), group, deformable_group)
    input_gradients(geometry, input, weight, offset, None, gradOutput, gradInput, gradOffset, None)


def deform_conv_backward_parameters(
    input: Tensor,
    offset: Tensor,
    gradOutput: Tensor,
    gradWeight: Tensor,
    columns: Tensor,
    ones: Tensor,
    kW: int,
    kH: int,
    dW: int,
    dH: int,
    padW: int,
    padH: int,
    dilationW: int,
    dilationH: int,
    group: int,
    deformable_group: int,
    scale: float,
    im2col_step: int,
) -> None:
    """Add ``scale`` times the gradient for the weight to ``gradWeight``."""
    geometry = Geometry((kH, kW), (dH, dW), (padH, padW), (dilationH, dilationW), group, deformable_group)
    add_weight_gradient(geometry, input, offset, None, gradOutput, gradWeight, scale)
