"""The four pixels around a fractional point, their bilinear weights, and the derivatives of these.

With ``l = x - floor(x)`` the weights along one axis are ``(1 - l, l)`` and their derivatives ``(-1, 1)``,
those of the cell that ``floor`` chooses: at an integer point the derivative is the one to its right, as in
mmcv's compiled operators (``modulated_deform_conv_cuda_kernel.cuh`` and ``ms_deform_attn_cuda_kernel.cuh``
of 2.1.0).

Corners are given as (..., 4), in the order top left, top right, bottom left, bottom right.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["ZeroPaddedCorners"]


class ZeroPaddedCorners:
    """Corners of points on a map that is zero outside.

    ``y`` and ``x`` are float tensors of one shape, in pixels; ``height`` and ``width`` are integers, or
    int32 tensors that broadcast with them. A point that is not within (-1, height) x (-1, width), or is
    NaN, has four corners of weight 0.
    """

    def __init__(self, y: Tensor, x: Tensor, height: Tensor | int, width: Tensor | int) -> None:
        self._y, self._x = _Axis(y, height), _Axis(x, width)
        top, bottom = (pixel * width for pixel in self._y.pixels)
        left, right = self._x.pixels
        #: Pixel number ``y * width + x``, int32; some pixel of the map where the corner is outside.
        self.index = torch.stack([top + left, top + right, bottom + left, bottom + right], -1)
        #: Bilinear weight; 0 for a corner outside the map.
        self.weight = _products(self._y.weights, self._x.weights)

    def weight_y(self) -> Tensor:
        """The derivative of ``weight`` for y."""
        return _products(self._y.slopes(), self._x.weights)

    def weight_x(self) -> Tensor:
        """The derivative of ``weight`` for x."""
        return _products(self._y.weights, self._x.slopes())


class _Axis:
    """The two neighbouring pixels along one axis of ``size`` pixels."""

    def __init__(self, position: Tensor, size: Tensor | int) -> None:
        floor = position.floor()
        fraction = position - floor
        zero = position.new_zeros(())
        self._valid = ((floor >= 0) & (floor < size), (position > -1) & (floor < size - 1))
        self.weights = (
            torch.where(self._valid[0], 1 - fraction, zero),
            torch.where(self._valid[1], fraction, zero),
        )
        low = torch.where(self._valid[0] | self._valid[1], floor, zero).int()
        self.pixels = (low * self._valid[0], (low + 1) * self._valid[1])

    def slopes(self) -> tuple[Tensor, Tensor]:
        dtype = self.weights[0].dtype
        return -self._valid[0].to(dtype), self._valid[1].to(dtype)


def _products(vertical: tuple[Tensor, Tensor], horizontal: tuple[Tensor, Tensor]) -> Tensor:
    return torch.stack([v * h for v in vertical for h in horizontal], -1)
