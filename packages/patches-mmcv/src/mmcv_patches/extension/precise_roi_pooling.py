"""Precise RoI pooling: each bin is the exact mean of the bilinear surface over it.

Jiang et al., "Acquisition of Localization Confidence for Accurate Object Detection", ECCV 2018. The surface
is a sum of hat functions around the pixels, ``sum_ij v[i, j] hat(y - i) hat(x - j)``, zero outside the map,
so that its integral over a bin is one sum with weights that factor: along one axis of a bin [a, b], pixel j
has the weight

    W[j] = H(b - j) - H(a - j),    H(t) = 1/2 + t - t |t| / 2 for t clamped to [-1, 1]

with H the integral of the hat. The derivative for the end b is hat(b - j), that for the start -hat(a - j).
"""

from __future__ import annotations

from typing import Iterator, NamedTuple

import torch
from torch import Tensor

from .pixel_rows import PixelRows
from .precision import to_accumulation_dtype
from .roi_sampling import Bins, add_pooled_gradient, pool, same_grids, separable_bins, to_rows
from .weighted_rows import weighted_row_sum_weight_gradient

__all__ = ["prroi_pool_backward", "prroi_pool_coor_backward", "prroi_pool_forward"]


def prroi_pool_forward(
    input: Tensor, rois: Tensor, output: Tensor, pooled_height: int, pooled_width: int, spatial_scale: float
) -> None:
    """Pool ``input`` (batch, channels, height, width) into ``output`` (rois, channels, bins, bins).

    ``rois`` is (rois, 5): image, x1, y1, x2, y2, in pixels of the map once multiplied by ``spatial_scale``.
    The bins of an empty RoI are 0.
    """
    output.zero_()
    chunks = _chunks(input, rois, output, spatial_scale)
    pool(input, output, (chunk.bins() for chunk in chunks))


def prroi_pool_backward(
    grad_output: Tensor,
    rois: Tensor,
    grad_input: Tensor,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
) -> None:
    """Add the gradient of :func:`prroi_pool_forward` for its input to ``grad_input``."""
    chunks = _chunks(grad_input, rois, grad_output, spatial_scale)
    add_pooled_gradient(grad_output, grad_input, (chunk.bins() for chunk in chunks))


def prroi_pool_coor_backward(
    output: Tensor,
    grad_output: Tensor,
    input: Tensor,
    rois: Tensor,
    grad_rois: Tensor,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
) -> None:
    """Add the gradient for the corners of the RoIs to ``grad_rois`` (rois, 5); its first column becomes 0."""
    pixels = PixelRows(input)
    whole = to_accumulation_dtype(grad_output)
    of_output = (whole * output).sum(1)
    grad_rois[:, 0] = 0
    for chunk in _chunks(input, rois, grad_output, spatial_scale):
        bins = chunk.bins()
        vertical, horizontal = chunk.vertical, chunk.horizontal
        table, place = pixels.table(bins.index)
        grad_pixel = weighted_row_sum_weight_gradient(to_rows(whole[bins.rois]), table, place)
        grad_pixel = grad_pixel.view(
            *vertical.pixels.shape[:2], horizontal.pixels.shape[1], -1, horizontal.pixels.shape[2]
        )
        along_x = (grad_pixel * vertical.weights[:, :, None, :, None]).sum(3)
        along_y = (grad_pixel * horizontal.weights[:, None, :, None, :]).sum(4).transpose(1, 2)
        for_x = horizontal.end_gradients(along_x, of_output[bins.rois])
        for_y = vertical.end_gradients(along_y, of_output[bins.rois].transpose(1, 2))
        ends = torch.stack([for_x[0], for_y[0], for_x[1], for_y[1]], 1)
        grad_rois[bins.rois, 1:] += (ends * spatial_scale).to(grad_rois.dtype)


class _Spans(NamedTuple):
    """Bins along one axis, (n, bins, members): pixels, and their weights in the mean over the bin."""

    pixels: Tensor
    weights: Tensor
    #: The hat functions around the pixels at the start and at the end of each bin.
    hat_start: Tensor
    hat_end: Tensor
    #: Length of a bin, (n,).
    length: Tensor

    def end_gradients(self, along: Tensor, of_output: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients for both ends of the RoI, (n,).

        ``along`` is the gradient of the pixels of this axis once the other axis is summed up, (n, bins of
        the other axis, bins, members); ``of_output`` (n, bins of the other axis, bins) the gradient times
        the output.
        """
        bins = self.pixels.shape[1]
        start = (of_output - (along * self.hat_start[:, None]).sum(3)).sum(1) / self.length[:, None]
        end = ((along * self.hat_end[:, None]).sum(3) - of_output).sum(1) / self.length[:, None]
        start, end = (
            torch.where(self.length[:, None] > 0, value, value.new_zeros(())) for value in (start, end)
        )
        # The start of bin i lies i / bins of the way from the start of the RoI to its end.
        number = torch.arange(bins, device=along.device, dtype=along.dtype)
        way_start, way_end = number / bins, (number + 1) / bins
        first = (start * (1 - way_start) + end * (1 - way_end)).sum(1)
        return first, (start * way_start + end * way_end).sum(1)


class _Chunk(NamedTuple):
    """Some RoIs whose bins reach over the same number of pixels."""

    rois: Tensor
    image: Tensor
    size: tuple[int, int]
    vertical: _Spans
    horizontal: _Spans

    def bins(self) -> Bins:
        vertical, horizontal = ((spans.pixels, spans.weights) for spans in (self.vertical, self.horizontal))
        return separable_bins(self.rois, self.image, self.size, vertical, horizontal)


def _chunks(maps: Tensor, rois: Tensor, output: Tensor, spatial_scale: float) -> Iterator[_Chunk]:
    size, bins = (maps.shape[2], maps.shape[3]), (output.shape[2], output.shape[3])
    rois = to_accumulation_dtype(rois)
    left, top, right, bottom = (rois[:, 1:] * spatial_scale).unbind(1)
    bin_height, bin_width = (bottom - top).clamp(min=0) / bins[0], (right - left).clamp(min=0) / bins[1]
    lengths = torch.stack([bin_height, bin_width], 1)
    # A bin touches its length rounded up, and one pixel more at either side.
    reach = torch.minimum(lengths.ceil() + 2, lengths.new_tensor(size))
    reach = torch.where(lengths.isfinite(), reach, lengths.new_zeros(())).int()
    for chosen, rows, columns in same_grids(reach, bins[0] * bins[1]):
        vertical = _spans(top[chosen], bin_height[chosen], bins[0], rows, size[0])
        horizontal = _spans(left[chosen], bin_width[chosen], bins[1], columns, size[1])
        yield _Chunk(chosen, rois[chosen, 0].int(), size, vertical, horizontal)


def _spans(start: Tensor, length: Tensor, bins: int, reach: int, size: int) -> _Spans:
    number = torch.arange(bins, device=start.device, dtype=start.dtype)
    low = start[:, None] + length[:, None] * number
    high = low + length[:, None]
    first = low.floor().clamp(min=0, max=size - reach).int()
    pixels = first[..., None] + torch.arange(reach, dtype=torch.int32, device=start.device)
    from_low, from_high = low[..., None] - pixels, high[..., None] - pixels
    weights = (_hat_integral(from_high) - _hat_integral(from_low)) / length[:, None, None]
    weights = torch.where(length[:, None, None] > 0, weights, weights.new_zeros(()))
    return _Spans(pixels, weights, _hat(from_low), _hat(from_high), length)


def _hat(distance: Tensor) -> Tensor:
    return (1 - distance.abs()).clamp(min=0)


def _hat_integral(distance: Tensor) -> Tensor:
    distance = distance.clamp(min=-1, max=1)
    return 0.5 + distance - 0.5 * distance * distance.abs()
