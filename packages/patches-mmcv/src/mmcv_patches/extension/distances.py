"""Squared Euclidean distances between points, a few rows at a time."""

from __future__ import annotations

from typing import Iterator

import torch
from torch import Tensor

from .chunking import row_ranges

__all__ = ["squared_distances"]

#: What the user of a step may allocate for each pair of points (distances, marks, indices of marked pairs),
#: in elements. It also keeps the distances of a step within a processor's cache.
_ELEMENTS_PER_PAIR = 16


def squared_distances(centres: Tensor, points: Tensor) -> Iterator[tuple[int, int, Tensor]]:
    """Yield ``(start, stop, distances)`` for consecutive centres, distances of shape (stop - start, N).

    ``sum over axes of (centre - point)^2`` from the differences: the expanded product would cancel. In
    float64 for float64 points, else in float32.

    Args:
        centres: (M, D), floating.
        points: (N, D), floating.
    """
    dtype = torch.float64 if centres.dtype == torch.float64 else torch.float32
    centre_axes = centres.to(dtype).t().unsqueeze(2)
    point_axes = points.to(dtype).t().contiguous().unsqueeze(1)
    for start, stop in row_ranges(centres.shape[0], _ELEMENTS_PER_PAIR * points.shape[0]):
        distances = (centre_axes[0, start:stop] - point_axes[0]).square_()
        for centre_axis, point_axis in zip(centre_axes[1:, start:stop], point_axes[1:]):
            difference = centre_axis - point_axis
            distances.addcmul_(difference, difference)
        yield start, stop, distances
