"""The four pixels around a fractional point, their bilinear weights, and the derivatives of these.

With ``l = x - floor(x)`` the weights along one axis are ``(1 - l, l)`` and their derivatives ``(-1, 1)``,
those of the cell that ``floor`` chooses: at an integer point the derivative is the one to its right, as in
mmcv's compiled operators (``modulated_deform_conv_cuda_kernel.cuh``, ``ms_deform_attn_cuda_kernel.cuh``,
mmcv 2.1.0).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["Corners", "zero_padded_corners"]


class Corners(NamedTuple):
    """Four pixels a point, in the order (top left, top right, bottom left, bottom right): (..., 4) each."""

    #: Pixel number ``y * width + x``, int64; 0 for a pixel outside the map.
    index: Tensor
    #: Bilinear weight; 0 for a pixel outside the map.
    weight: Tensor
    #: Derivative of the weight along y, and along x.
    weight_y: Tensor
    weight_x: Tensor


def zero_padded_corners(y: Tensor, x: Tensor, height: Tensor | int, width: Tensor | int) -> Corners:
    """Corners of points on a map that is zero outside.

    A point not within (-1, height) x (-1, width) has four corners of weight 0; so has a NaN.

    ``y`` and ``x`` are float tensors of one shape, in pixels; ``height`` and ``width`` are integers, or
    integer tensors that broadcast with them.
    """
    inside = (y > -1) & (y < height) & (x > -1) & (x < width)
    y, x = y.where(inside, y.new_zeros(())), x.where(inside, x.new_zeros(()))
    top, left = y.floor(), x.floor()
    below, right = y - top, x - left
    row, column = top.long(), left.long()

    vertical = ((row >= 0) & inside, (row < height - 1) & inside)
    horizontal = (column >= 0, column < width - 1)
    weights_vertical = ((1 - below) * vertical[0], below * vertical[1])
    weights_horizontal = ((1 - right) * horizontal[0], right * horizontal[1])
    slopes_vertical = (-vertical[0].to(y.dtype), vertical[1].to(y.dtype))
    slopes_horizontal = (-horizontal[0].to(x.dtype), horizontal[1].to(x.dtype))

    pixel = row * width + column
    corners = [(i, j) for i in (0, 1) for j in (0, 1)]
    return Corners(
        torch.stack([(pixel + i * width + j) * (vertical[i] & horizontal[j]) for i, j in corners], -1),
        torch.stack([weights_vertical[i] * weights_horizontal[j] for i, j in corners], -1),
        torch.stack([slopes_vertical[i] * weights_horizontal[j] for i, j in corners], -1),
        torch.stack([weights_vertical[i] * slopes_horizontal[j] for i, j in corners], -1),
    )
