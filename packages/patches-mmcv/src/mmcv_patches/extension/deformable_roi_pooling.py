"""Deformable RoI pooling: RoI align whose bins are moved by learned offsets.

Dai et al., "Deformable Convolutional Networks", ICCV 2017, section 2.2. The bin (i, j) of a RoI of size h x
w is moved by ``gamma * (h * offset_y[i, j], w * offset_x[i, j])``; its value is the mean of a grid of
bilinear samples as in ``roi_align`` with aligned corners (``deform_roi_pool_cuda_kernel.cuh``, mmcv 2.1.0).

The gradient for an offset is mmcv's: the weights along the other axis are those of the position before it
is moved onto the border, so that a sample outside the map passes on the slope of the two pixels at the
border.
"""

from __future__ import annotations

from typing import Iterator, NamedTuple

import torch
from torch import Tensor

from .bilinear import Axis, Corners, border_axis
from .pixel_rows import PixelRows
from .precision import to_accumulation_dtype
from .roi_sampling import (
    Bins,
    add_pooled_gradient,
    bins_of_samples,
    grid_positions,
    grid_sizes,
    pool,
    same_grids,
    to_rows,
)
from .weighted_rows import weighted_row_sum_weight_gradient

__all__ = ["deform_roi_pool_backward", "deform_roi_pool_forward"]


def deform_roi_pool_forward(
    input: Tensor,
    rois: Tensor,
    offset: Tensor,
    output: Tensor,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
    sampling_ratio: int,
    gamma: float,
) -> None:
    """Pool ``input`` (batch, channels, height, width) into ``output`` (rois, channels, bins, bins).

    ``rois`` is (rois, 5): image, x1, y1, x2, y2, in pixels of the map once multiplied by ``spatial_scale``
    and moved by half a pixel. ``offset`` is (rois, 2, bins, bins), x and y, or empty. ``sampling_ratio`` is
    the number of samples along each axis of a bin, 0 for as many as it has pixels.
    """
    output.zero_()
    chunks = _chunks(input, rois, offset, output, spatial_scale, sampling_ratio, gamma)
    pool(input, output, (chunk.bins for chunk in chunks))


def deform_roi_pool_backward(
    grad_output: Tensor,
    input: Tensor,
    rois: Tensor,
    offset: Tensor,
    grad_input: Tensor,
    grad_offset: Tensor,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
    sampling_ratio: int,
    gamma: float,
) -> None:
    """Add the gradients of :func:`deform_roi_pool_forward` to ``grad_input`` and ``grad_offset``."""
    arguments = (input, rois, offset, grad_output, spatial_scale, sampling_ratio, gamma)
    add_pooled_gradient(grad_output, grad_input, (chunk.bins for chunk in _chunks(*arguments)))
    if not offset.numel():
        return
    pixels = PixelRows(input)
    for chunk in _chunks(*arguments):
        table, place = pixels.table(chunk.bins.index)
        grad_corner = weighted_row_sum_weight_gradient(to_rows(grad_output[chunk.bins.rois]), table, place)
        grad_corner = grad_corner.view(chunk.slope_x.shape)
        shifts = [(grad_corner * slope).sum((3, 4, 5)) for slope in (chunk.slope_x, chunk.slope_y)]
        grad_offset[chunk.bins.rois] += torch.stack(shifts, 1).to(grad_offset.dtype)


class _Chunk(NamedTuple):
    """Some RoIs: their bins, and the derivatives of the weights for the offsets, (n, bins, bins, ..., 4)."""

    bins: Bins
    slope_x: Tensor
    slope_y: Tensor


def _chunks(
    maps: Tensor,
    rois: Tensor,
    offset: Tensor,
    output: Tensor,
    spatial_scale: float,
    sampling_ratio: int,
    gamma: float,
) -> Iterator[_Chunk]:
    size, bins = (maps.shape[2], maps.shape[3]), (output.shape[2], output.shape[3])
    rois = to_accumulation_dtype(rois)
    left, top, right, bottom = (rois[:, 1:] * spatial_scale - 0.5).unbind(1)
    height, width = bottom - top, right - left
    shift = rois.new_zeros(len(rois), 2, *bins)
    if offset.numel():
        shift = to_accumulation_dtype(offset) * (gamma * torch.stack([width, height], 1))[..., None, None]
    for chosen, rows, columns in same_grids(
        grid_sizes(height, width, bins, sampling_ratio), 4 * bins[0] * bins[1]
    ):
        shift_x, shift_y = shift[chosen, :, :, :, None, None].unbind(1)
        y = (
            grid_positions(top[chosen], height[chosen] / bins[0], bins[0], rows)[:, :, None, :, None]
            + shift_y
        )
        x = (
            grid_positions(left[chosen], width[chosen] / bins[1], bins[1], columns)[:, None, :, None, :]
            + shift_x
        )
        vertical, horizontal = border_axis(y, size[0]), border_axis(x, size[1])
        corners = Corners(vertical, horizontal, size[1])
        slope_y, slope_x = _slopes(vertical, y, horizontal, x)
        factor = (gamma / (rows * columns)) * torch.stack([width[chosen], height[chosen]])
        factor_x, factor_y = factor.view(2, -1, 1, 1, 1, 1, 1)
        image = rois[chosen, 0].int()
        yield _Chunk(bins_of_samples(chosen, image, size, corners), slope_x * factor_x, slope_y * factor_y)


def _slopes(vertical: Axis, y: Tensor, horizontal: Axis, x: Tensor) -> tuple[Tensor, Tensor]:
    """Derivatives of the four weights for y and x, with the weights of the other axis not clamped."""
    inside = vertical.valid[0] & horizontal.valid[0]
    (top, bottom), (left, right) = vertical.pixels, horizontal.pixels
    for_y = torch.stack(torch.broadcast_tensors(x - right, left - x, right - x, x - left), -1)
    for_x = torch.stack(torch.broadcast_tensors(y - bottom, bottom - y, top - y, y - top), -1)
    zero = y.new_zeros(())
    return torch.where(inside[..., None], for_y, zero), torch.where(inside[..., None], for_x, zero)
