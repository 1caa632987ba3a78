"""Feature maps as tables with one row a pixel, in which the sampling operators look things up.

A row of channels is contiguous in such a table, which makes it fast to sample but costs a copy of the map.
Where few pixels are sampled, as for a handful of RoIs on a large map, a table of just those is made
instead.
"""

from __future__ import annotations

import contextlib
from typing import Iterator

import torch
from torch import Tensor

from .precision import to_accumulation_dtype
from .weighted_rows import sum_by_row

__all__ = ["PixelRows", "add_to_pixels", "flat_gradient"]

#: A table of single pixels is worth while as long as there are this many times more pixels than look-ups.
_PIXELS_PER_LOOKUP = 4


class PixelRows:
    """Pixels of ``maps`` (batch, channels, height, width).

    The number of a pixel is ``(image * height + y) * width + x``, int32.
    """

    def __init__(self, maps: Tensor) -> None:
        self._maps = maps
        self._all: Tensor | None = None

    def table(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """A table that has the pixels ``index``, and where in it they are (int32, shaped like ``index``)."""
        if self._all is None and not _few(index, self._maps):
            self._all = to_accumulation_dtype(_by_pixel(self._maps)).flatten(0, 2)
        if self._all is not None:
            return self._all, index
        pixels, place = torch.unique(index, return_inverse=True)
        rows = _by_pixel(self._maps)[_coordinates(pixels, self._maps)]
        return to_accumulation_dtype(rows), place.int()


def add_to_pixels(maps: Tensor, grad: Tensor, index: Tensor, weight: Tensor, bag: Tensor) -> None:
    """Add ``weight[e] * grad[bag[e]]`` to pixel ``index[e]`` of ``maps``, for every e.

    Pixels are numbered as in :class:`PixelRows`. ``grad`` is (B, channels); ``index``, ``weight`` and ``bag``
    are (E,).
    """
    pixels, sums = sum_by_row(grad, index, weight, bag)
    _by_pixel(maps)[_coordinates(pixels, maps)] += sums.to(maps.dtype)


@contextlib.contextmanager
def flat_gradient(maps: Tensor) -> Iterator[Tensor]:
    """``maps`` as one flat tensor in the accumulation dtype; what is added to it arrives in the maps."""
    whole = to_accumulation_dtype(maps).contiguous()
    yield whole.view(-1)
    if whole is not maps:
        maps.copy_(whole)


def _few(index: Tensor, maps: Tensor) -> bool:
    return index.numel() * _PIXELS_PER_LOOKUP * maps.shape[1] <= maps.numel()


def _by_pixel(maps: Tensor) -> Tensor:
    return maps.permute(0, 2, 3, 1)


def _coordinates(pixels: Tensor, maps: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    height, width = maps.shape[2:]
    row = torch.div(pixels, width, rounding_mode="floor").long()
    return torch.div(row, height, rounding_mode="floor"), row % height, (pixels % width).long()
