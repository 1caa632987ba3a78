"""RoI align: each bin of a box is the mean, or the maximum, of samples on a regular grid inside it.

He et al., "Mask R-CNN", ICCV 2017, section 3. Bin i of a RoI that starts at s with bins of size b holds a
grid of g samples along each axis, the k-th at ``s + i * b + (k + 0.5) * b / g``. Without a fixed
``sampling_ratio``, g is the bin size in pixels rounded up. A sample is bilinear; up to a pixel outside the
map it is taken on the border, further outside it is 0 (``csrc/pytorch/cpu/roi_align.cpp``, mmcv 2.1.0).
"""

from __future__ import annotations

from typing import Iterator, NamedTuple

import torch
from torch import Tensor

from .bilinear import border_axis, border_corners
from .chunking import row_ranges
from .pixel_rows import PixelRows, flat_gradient
from .precision import to_accumulation_dtype
from .roi_sampling import (
    SAMPLED_PIXELS,
    Bins,
    add_pooled_gradient,
    from_rows,
    grid_positions,
    grid_sizes,
    mean_along,
    pool,
    same_grids,
    separable_bins,
)
from .weighted_rows import weighted_row_sum

__all__ = ["roi_align_backward", "roi_align_forward"]

_MAXIMUM = 0
#: The maximum of no sample, and the coordinates that mark it.
_LOWEST, _NOWHERE = -10000.0, -1.0


def roi_align_forward(
    input: Tensor,
    rois: Tensor,
    output: Tensor,
    argmax_y: Tensor,
    argmax_x: Tensor,
    aligned_height: int,
    aligned_width: int,
    spatial_scale: float,
    sampling_ratio: int,
    pool_mode: int,
    aligned: bool,
) -> None:
    """Pool ``input`` (batch, channels, height, width) into ``output`` (rois, channels, bins, bins).

    ``rois`` is (rois, 5): image, x1, y1, x2, y2, in pixels of the map once multiplied by ``spatial_scale``;
    ``aligned`` then moves them by half a pixel, and otherwise a RoI is one pixel large at least.
    ``sampling_ratio`` is the number of samples along each axis of a bin, 0 for as many as it has pixels.
    ``pool_mode`` 1 takes their mean; 0 their maximum, whose coordinates are written to ``argmax_y`` and
    ``argmax_x``, floats shaped like ``output`` (-1 for a bin without a sample).
    """
    bins, size = (aligned_height, aligned_width), (input.shape[2], input.shape[3])
    boxes = _boxes(rois, spatial_scale, aligned, bins)
    if pool_mode == _MAXIMUM:
        _maximum(input, boxes, bins, sampling_ratio, output, argmax_y, argmax_x)
    else:
        output.zero_()
        pool(input, output, _bins(boxes, bins, sampling_ratio, size))


def roi_align_backward(
    grad_output: Tensor,
    rois: Tensor,
    argmax_y: Tensor,
    argmax_x: Tensor,
    grad_input: Tensor,
    aligned_height: int,
    aligned_width: int,
    spatial_scale: float,
    sampling_ratio: int,
    pool_mode: int,
    aligned: bool,
) -> None:
    """Add the gradient of :func:`roi_align_forward` for its input to ``grad_input``."""
    bins, size = (aligned_height, aligned_width), (grad_input.shape[2], grad_input.shape[3])
    boxes = _boxes(rois, spatial_scale, aligned, bins)
    if pool_mode == _MAXIMUM:
        _add_maximum_gradient(grad_output, boxes.image, argmax_y, argmax_x, grad_input)
    else:
        add_pooled_gradient(grad_output, grad_input, _bins(boxes, bins, sampling_ratio, size))


class _Boxes(NamedTuple):
    """RoIs on the map, (rois,) each: image number, int32; start; size; size of a bin."""

    image: Tensor
    top: Tensor
    left: Tensor
    height: Tensor
    width: Tensor
    bin_height: Tensor
    bin_width: Tensor


def _boxes(rois: Tensor, spatial_scale: float, aligned: bool, bins: tuple[int, int]) -> _Boxes:
    rois = to_accumulation_dtype(rois)
    left, top, right, bottom = (rois[:, 1:] * spatial_scale - (0.5 if aligned else 0.0)).unbind(1)
    height, width = bottom - top, right - left
    if not aligned:
        height, width = height.clamp(min=1), width.clamp(min=1)
    return _Boxes(rois[:, 0].int(), top, left, height, width, height / bins[0], width / bins[1])


def _positions(
    boxes: _Boxes, rois: Tensor, bins: tuple[int, int], rows: int, columns: int
) -> tuple[Tensor, Tensor]:
    y = grid_positions(boxes.top[rois], boxes.bin_height[rois], bins[0], rows)
    x = grid_positions(boxes.left[rois], boxes.bin_width[rois], bins[1], columns)
    return y, x


def _bins(boxes: _Boxes, bins: tuple[int, int], sampling_ratio: int, size: tuple[int, int]) -> Iterator[Bins]:
    sizes = grid_sizes(boxes.height, boxes.width, bins, sampling_ratio)
    for rois, rows, columns in same_grids(sizes, 4 * bins[0] * bins[1]):
        y, x = _positions(boxes, rois, bins, rows, columns)
        vertical, horizontal = (
            mean_along(border_axis(position, extent), extent, dense=sampling_ratio <= 0)
            for position, extent in zip((y, x), size)
        )
        yield separable_bins(rois, boxes.image[rois], size, vertical, horizontal)


def _maximum(
    maps: Tensor,
    boxes: _Boxes,
    bins: tuple[int, int],
    sampling_ratio: int,
    output: Tensor,
    argmax_y: Tensor,
    argmax_x: Tensor,
) -> None:
    channels, height, width = maps.shape[1:]
    output.fill_(_LOWEST)
    argmax_y.fill_(_NOWHERE)
    argmax_x.fill_(_NOWHERE)
    pixels = PixelRows(maps)
    sizes = grid_sizes(boxes.height, boxes.width, bins, sampling_ratio)
    for rois, rows, columns in same_grids(sizes, max(4, channels) * bins[0] * bins[1]):
        y, x = (
            # Every sample of every bin: (rois, bins, bins, rows, columns) to (rois * bins * bins, samples).
            position.expand(-1, *bins, rows, columns).reshape(-1, rows * columns)
            for position in _broadcastable(*_positions(boxes, rois, bins, rows, columns))
        )
        corners = border_corners(y, x, height, width)
        first = boxes.image[rois].repeat_interleave(bins[0] * bins[1]) * (height * width)
        table, place = pixels.table((corners.index + first[:, None, None]).view(-1, 4))
        samples = weighted_row_sum(table, place, corners.weight.view(-1, 4))
        largest, chosen = samples.view(*y.shape, channels).max(1)
        found = largest > _LOWEST
        for target, values, missing in (
            (output, largest, _LOWEST),
            (argmax_y, y.gather(1, chosen), _NOWHERE),
            (argmax_x, x.gather(1, chosen), _NOWHERE),
        ):
            target[rois] = from_rows(values.masked_fill(~found, missing), target)


def _add_maximum_gradient(
    grad_output: Tensor, image: Tensor, argmax_y: Tensor, argmax_x: Tensor, grad_maps: Tensor
) -> None:
    channels, height, width = grad_maps.shape[1:]
    plane = torch.arange(channels, device=image.device) + image[:, None].long() * channels
    with flat_gradient(grad_maps) as flat:
        for start, stop in row_ranges(len(grad_output), 4 * grad_output[:1].numel(), SAMPLED_PIXELS):
            y, x = (to_accumulation_dtype(argmax[start:stop]) for argmax in (argmax_y, argmax_x))
            corners = border_corners(y, x, height, width)
            weight = corners.weight * (y != _NOWHERE)[..., None]
            index = corners.index + plane[start:stop, :, None, None, None] * (height * width)
            grad = to_accumulation_dtype(grad_output[start:stop])[..., None] * weight
            flat.scatter_add_(0, index.view(-1), grad.view(-1))


def _broadcastable(y: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """(rois, bins, samples) each to (rois, bins, bins, rows, columns), 1 where there is no difference."""
    return y[:, :, None, :, None], x[:, None, :, None, :]
