"""What the RoI operators share: grids of samples in the bins of a box, and weighted sums of pixels a bin."""

from __future__ import annotations

from typing import Iterable, Iterator, NamedTuple

import torch
from torch import Tensor

from .bilinear import Axis, Corners
from .chunking import row_ranges
from .pixel_rows import PixelRows, add_to_pixels
from .precision import to_accumulation_dtype
from .weighted_rows import weighted_row_sum

__all__ = [
    "SAMPLED_PIXELS",
    "Bins",
    "add_pooled_gradient",
    "bins_of_samples",
    "from_rows",
    "grid_positions",
    "grid_sizes",
    "mean_along",
    "pool",
    "same_grids",
    "separable_bins",
    "to_rows",
]

#: Sampled pixels that one chunk of RoIs may have.
SAMPLED_PIXELS = 1 << 20


class Bins(NamedTuple):
    """The bins of some RoIs, each a weighted sum of pixels."""

    #: Numbers of the RoIs, int64 (n,).
    rois: Tensor
    #: Pixel numbers in the maps and weights, (n * bins of a RoI, members).
    index: Tensor
    weight: Tensor


def pool(maps: Tensor, output: Tensor, chunks: Iterable[Bins]) -> None:
    """Write bins of ``maps`` (batch, channels, height, width) to ``output`` (rois, channels, bins, bins)."""
    pixels = PixelRows(maps)
    for group in _batches(chunks):
        table, place = pixels.table(torch.cat([bins.index.view(-1) for bins in group]))
        for bins, part in zip(group, place.split([bins.index.numel() for bins in group])):
            sums = weighted_row_sum(table, part.view(bins.index.shape), bins.weight)
            output[bins.rois] = from_rows(sums, output)


def add_pooled_gradient(grad_output: Tensor, grad_maps: Tensor, chunks: Iterable[Bins]) -> None:
    """Add the gradient of :func:`pool` for the maps to ``grad_maps``."""
    for group in _batches(chunks):
        grad = to_rows(grad_output[torch.cat([bins.rois for bins in group])])
        members = [torch.full_like(bins.index[:, 0], bins.index.shape[1]) for bins in group]
        bag = torch.arange(len(grad), dtype=torch.int32, device=grad.device)
        add_to_pixels(
            grad_maps,
            grad,
            torch.cat([bins.index.view(-1) for bins in group]),
            torch.cat([bins.weight.view(-1) for bins in group]),
            bag.repeat_interleave(torch.cat(members)),
        )


def _batches(chunks: Iterable[Bins]) -> Iterator[list[Bins]]:
    """Join chunks up to ``SAMPLED_PIXELS``: RoIs of one size may be few, and a pass over the maps costs."""
    batch: list[Bins] = []
    size = 0
    for bins in chunks:
        batch.append(bins)
        size += bins.index.numel()
        if size >= SAMPLED_PIXELS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def to_rows(values: Tensor) -> Tensor:
    """(rois, channels, bins, bins) to (rois * bins, channels), in the accumulation dtype."""
    return to_accumulation_dtype(values).flatten(2).transpose(1, 2).reshape(-1, values.shape[1])


def from_rows(rows: Tensor, output: Tensor) -> Tensor:
    """(rois * bins, channels) to (rois, channels, bins, bins), with dtype and bins of ``output``."""
    by_roi = rows.view(-1, output.shape[2] * output.shape[3], rows.shape[1])
    return by_roi.transpose(1, 2).reshape(-1, *output.shape[1:]).to(output.dtype)


def grid_sizes(height: Tensor, width: Tensor, bins: tuple[int, int], sampling_ratio: int) -> Tensor:
    """Rows and columns of the grid of samples in a bin, int32 (rois, 2).

    ``height`` and ``width`` of the RoIs are in pixels, (rois,). Each result is ``sampling_ratio``, or,
    where that is not positive, the size of a bin rounded up: 0 for a RoI that is empty or not finite.
    """
    if sampling_ratio > 0:
        return torch.full((len(height), 2), sampling_ratio, dtype=torch.int32, device=height.device)
    # Rounded up in single precision, as the compiled operators do for every dtype.
    sizes = torch.stack([height / bins[0], width / bins[1]], 1).float().ceil()
    return torch.nan_to_num(sizes, nan=0, posinf=0).clamp(min=0).int()


def same_grids(sizes: Tensor, entries: int) -> Iterator[tuple[Tensor, int, int]]:
    """Group RoIs by the size of their grids, int32 (rois, 2).

    Yields the numbers of the RoIs (int64), rows and columns of their grid, in groups of about
    ``SAMPLED_PIXELS`` at ``entries`` for each point of the grid. RoIs without a point are left out.
    """
    grids, member = torch.unique(sizes[:, 0].long() << 32 | sizes[:, 1], return_inverse=True)
    for number, grid in enumerate(grids.tolist()):
        rows, columns = divmod(grid, 1 << 32)
        if rows and columns:
            rois = (member == number).nonzero().squeeze(1)
            for start, stop in row_ranges(len(rois), rows * columns * entries, SAMPLED_PIXELS):
                yield rois[start:stop], rows, columns


def grid_positions(start: Tensor, bin_size: Tensor, bins: int, samples: int) -> Tensor:
    """Positions of the samples along one axis of every bin, (rois, bins, samples).

    Sample k of bin i is at ``start + i * bin_size + (k + 0.5) * bin_size / samples``; ``start`` and
    ``bin_size`` are (rois,).
    """
    start, bin_size = start[:, None, None], bin_size[:, None, None]
    number = torch.arange(bins, device=start.device, dtype=start.dtype)[:, None]
    sample = torch.arange(samples, device=start.device, dtype=start.dtype)
    return start + number * bin_size + (sample + 0.5) * bin_size / samples


def mean_along(axis: Axis, size: int, dense: bool) -> tuple[Tensor, Tensor]:
    """The mean of the samples of a bin along one axis: all pixels that take part, and their weights.

    ``axis`` holds the samples, (..., samples) and rising, on an axis of ``size`` pixels. The pixels of the
    samples are listed one by one, or, where they are ``dense``, that is not more than a pixel apart, each
    pixel of the bin once.
    """
    (low, high), (low_weight, high_weight) = axis.pixels, axis.weights
    samples = low.shape[-1]
    if not dense:
        return torch.cat([low, high], -1), torch.cat([low_weight, high_weight], -1) / samples
    first, pixels = low[..., :1], min(samples + 1, size)
    place = torch.cat([low - first, high - first], -1).long()
    weight = low_weight.new_zeros(*low.shape[:-1], pixels)
    weight.scatter_add_(-1, place, torch.cat([low_weight, high_weight], -1) / samples)
    pixel = first + torch.arange(pixels, dtype=torch.int32, device=low.device)
    return pixel.clamp(max=size - 1), weight


def separable_bins(
    rois: Tensor,
    image: Tensor,
    size: tuple[int, int],
    vertical: tuple[Tensor, Tensor],
    horizontal: tuple[Tensor, Tensor],
) -> Bins:
    """Bins whose pixels form a grid and whose weights are products of one weight along each axis.

    ``rois`` are the numbers of the RoIs, ``image`` (n,) int32 the map of each, ``size`` the height and
    width of the maps; ``vertical`` and ``horizontal`` are pixels and weights, (n, bins, members).
    """
    height, width = size
    (rows, row_weights), (columns, column_weights) = vertical, horizontal
    first = (image * height)[:, None, None]
    index = ((rows + first) * width)[:, :, None, :, None] + columns[:, None, :, None, :]
    weight = row_weights[:, :, None, :, None] * column_weights[:, None, :, None, :]
    return Bins(rois, index.flatten(0, 2).flatten(1), weight.flatten(0, 2).flatten(1))


def bins_of_samples(rois: Tensor, image: Tensor, size: tuple[int, int], corners: Corners) -> Bins:
    """Bins that are the mean of samples (n, bins, bins, rows, columns); the rest as in separable_bins."""
    samples = corners.weight.shape[3] * corners.weight.shape[4]
    first = (image * (size[0] * size[1])).view(-1, 1, 1, 1, 1, 1)
    index, weight = corners.index + first, corners.weight / samples
    return Bins(rois, index.flatten(0, 2).flatten(1), weight.flatten(0, 2).flatten(1))
