"""The four pixels around a fractional point, their bilinear weights, and the derivatives of these.

With ``l = x - floor(x)`` the weights along one axis are ``(1 - l, l)`` and their derivatives ``(-1, 1)``,
those of the cell that ``floor`` chooses: at an integer point the derivative is the one to its right, as in
mmcv's compiled operators (``modulated_deform_conv_cuda_kernel.cuh`` and ``ms_deform_attn_cuda_kernel.cuh``
of 2.1.0). mmcv knows two kinds of border, one function each.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["Axis", "Corners", "border_axis", "border_corners", "zero_padded_axis", "zero_padded_corners"]


class Axis(NamedTuple):
    """The two pixels next to some positions along one axis, the lower one first."""

    #: int32; a pixel of the axis also where there is none to the side, which then has weight 0.
    pixels: tuple[Tensor, Tensor]
    weights: tuple[Tensor, Tensor]
    #: Which of the pixels count.
    valid: tuple[Tensor, Tensor]

    def slopes(self) -> tuple[Tensor, Tensor]:
        """Derivatives of the weights for the position."""
        dtype = self.weights[0].dtype
        return -self.valid[0].to(dtype), self.valid[1].to(dtype)


class Corners:
    """The four pixels around points on a map: top left, top right, bottom left, bottom right.

    They stand in a dimension of their own, the last one or ``dim``.
    """

    def __init__(self, vertical: Axis, horizontal: Axis, width: Tensor | int, dim: int = -1) -> None:
        self._vertical, self._horizontal, self._dim = vertical, horizontal, dim
        rows = [pixel * width for pixel in vertical.pixels]
        #: Pixel number ``y * width + x``, int32; some pixel of the map where the weight is 0.
        self.index = torch.stack([row + column for row in rows for column in horizontal.pixels], dim)
        #: Bilinear weight.
        self.weight = self._products(vertical.weights, horizontal.weights)

    def weight_y(self) -> Tensor:
        """The derivative of ``weight`` for y."""
        return self._products(self._vertical.slopes(), self._horizontal.weights)

    def weight_x(self) -> Tensor:
        """The derivative of ``weight`` for x."""
        return self._products(self._vertical.weights, self._horizontal.slopes())

    def _products(self, vertical: tuple[Tensor, Tensor], horizontal: tuple[Tensor, Tensor]) -> Tensor:
        return torch.stack([v * h for v in vertical for h in horizontal], self._dim)


def zero_padded_corners(
    y: Tensor, x: Tensor, height: Tensor | int, width: Tensor | int, dim: int = -1
) -> Corners:
    """Corners of points on a map that is zero outside.

    ``y`` and ``x`` are float tensors of one shape, in pixels; ``height`` and ``width`` are integers, or int32
    tensors that broadcast with them. A point that is not within (-1, height) x (-1, width), or is NaN, has
    four corners of weight 0.
    """
    return Corners(zero_padded_axis(y, height), zero_padded_axis(x, width), width, dim)


def border_corners(y: Tensor, x: Tensor, height: int, width: int) -> Corners:
    """Corners of points on a map whose border pixels reach one pixel further out.

    A point that is not within [-1, height] x [-1, width], or is NaN, has four corners of weight 0.
    """
    return Corners(border_axis(y, height), border_axis(x, width), width)


def zero_padded_axis(position: Tensor, size: Tensor | int) -> Axis:
    """One axis of :func:`zero_padded_corners`."""
    floor = position.floor()
    fraction = position - floor
    zero = position.new_zeros(())
    # Comparing numbers of two types is slow, converting the few sizes is not.
    last = (size.to(position.dtype) if isinstance(size, Tensor) else size) - 1
    valid = ((floor >= 0) & (floor <= last), (position > -1) & (floor < last))
    weights = (torch.where(valid[0], 1 - fraction, zero), torch.where(valid[1], fraction, zero))
    pixels = (torch.where(valid[0], floor, zero).int(), torch.where(valid[1], floor + 1, zero).int())
    return Axis(pixels, weights, valid)


def border_axis(position: Tensor, size: int) -> Axis:
    """One axis of :func:`border_corners`."""
    inside = (position >= -1) & (position <= size)
    zero = position.new_zeros(())
    position = torch.nan_to_num(position).clamp(min=0, max=size - 1)
    floor = position.floor()
    fraction = position - floor
    weights = (torch.where(inside, 1 - fraction, zero), torch.where(inside, fraction, zero))
    low = floor.int()
    return Axis((low, (low + 1).clamp(max=size - 1)), weights, (inside, inside))
