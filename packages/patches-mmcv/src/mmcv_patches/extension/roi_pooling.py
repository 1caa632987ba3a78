"""RoI pooling: each bin of a box is the maximum of the pixels that it touches.

Girshick, "Fast R-CNN", ICCV 2015, section 2.1. The bins of a RoI are rounded outwards to whole pixels and
cut off at the border of the map (``roi_pool_cuda_kernel.cuh``, mmcv 2.1.0).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .chunking import row_ranges
from .pixel_rows import PixelRows, flat_gradient
from .precision import to_accumulation_dtype
from .roi_sampling import SAMPLED_PIXELS, from_rows, same_grids

__all__ = ["roi_pool_backward", "roi_pool_forward"]


def roi_pool_forward(
    input: Tensor,
    rois: Tensor,
    output: Tensor,
    argmax: Tensor,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
) -> None:
    """Pool ``input`` (batch, channels, height, width) into ``output`` (rois, channels, bins, bins).

    ``rois`` is (rois, 5): image, x1, y1, x2, y2, the last two included, in pixels of the map once
    multiplied by ``spatial_scale``. ``argmax``, int32 and shaped like ``output``, receives the pixel ``y *
    width + x`` of each maximum. A bin outside the map is 0, and its ``argmax`` -1. A RoI without area
    leaves both buffers as they are.
    """
    channels, height, width = input.shape[1:]
    bins = (pooled_height, pooled_width)
    rois = to_accumulation_dtype(rois)
    first = rois[:, 1:3] * spatial_scale
    extent = (rois[:, 3:] + 1) * spatial_scale - first
    valid = (extent > 0).all(1).nonzero().squeeze(1)
    output[valid], argmax[valid] = 0, -1
    image = rois[valid, 0].int()
    columns, rows = (
        _spans(first[valid, axis], extent[valid, axis], count, size)
        for axis, (count, size) in enumerate(zip((pooled_width, pooled_height), (width, height)))
    )
    pixels = PixelRows(input)
    reach = torch.stack([rows.reach(), columns.reach()], 1)
    for chosen, row_count, column_count in same_grids(reach, bins[0] * bins[1] * max(channels, 1)):
        y, inside_y = rows.pixels(chosen, row_count)
        x, inside_x = columns.pixels(chosen, column_count)
        index = (y * width)[:, :, None, :, None] + x[:, None, :, None, :]
        inside = inside_y[:, :, None, :, None] & inside_x[:, None, :, None, :]
        index, inside = index.flatten(0, 2).flatten(1), inside.flatten(0, 2).flatten(1)
        base = (image[chosen] * (height * width)).repeat_interleave(bins[0] * bins[1])
        table, place = pixels.table(index + base[:, None])
        values = table[place.long()].masked_fill_(~inside[..., None], float("-inf"))
        largest, member = values.max(1)
        found = inside.any(1)[:, None]
        output[valid[chosen]] = from_rows(largest.masked_fill(~found, 0), output)
        argmax[valid[chosen]] = from_rows(index.gather(1, member).masked_fill(~found, -1), argmax)


def roi_pool_backward(
    grad_output: Tensor,
    rois: Tensor,
    argmax: Tensor,
    grad_input: Tensor,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
) -> None:
    """Add the gradient of :func:`roi_pool_forward` for its input to ``grad_input``."""
    channels, height, width = grad_input.shape[1:]
    plane = torch.arange(channels, device=rois.device) + rois[:, :1].long() * channels
    with flat_gradient(grad_input) as flat:
        for start, stop in row_ranges(len(rois), grad_output[:1].numel(), SAMPLED_PIXELS):
            chosen = argmax[start:stop].long()
            index = chosen.clamp(min=0) + plane[start:stop, :, None, None] * (height * width)
            grad = to_accumulation_dtype(grad_output[start:stop]) * (chosen >= 0)
            flat.scatter_add_(0, index.reshape(-1), grad.reshape(-1))


class _Spans(NamedTuple):
    """The bins of RoIs along one axis: first pixel and the one after the last, int32 (rois, bins)."""

    start: Tensor
    end: Tensor

    def reach(self) -> Tensor:
        """Pixels of the largest bin of each RoI."""
        return (self.end - self.start).clamp(min=0).amax(1)

    def pixels(self, rois: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """``count`` pixels of every bin, int32 (n, bins, count), and which of them are in it."""
        start, end = self.start[rois, :, None], self.end[rois, :, None]
        pixels = start + torch.arange(count, dtype=torch.int32, device=start.device)
        inside = pixels < end
        return pixels * inside, inside


def _spans(first: Tensor, extent: Tensor, bins: int, size: int) -> _Spans:
    number = torch.arange(bins + 1, device=first.device, dtype=first.dtype)
    edges = torch.nan_to_num(number * (extent / bins)[:, None] + first[:, None])
    start, end = (edge.clamp(min=0, max=size).int() for edge in (edges[:, :-1].floor(), edges[:, 1:].ceil()))
    return _Spans(start, end)
