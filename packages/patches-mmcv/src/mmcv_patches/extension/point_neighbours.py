"""Neighbours of points: all within a ball, or the nearest few.

Distances are squared. Facts about behaviour: mmcv 2.1.0,
``ops/csrc/common/cuda/{ball_query,stack_ball_query,knn,three_nn}_cuda_kernel.cuh``.
"""

from __future__ import annotations

import math
from typing import Callable

import torch
from torch import Tensor

from .distances import squared_distances
from .selection import first_marked_columns, smallest_columns

__all__ = ["ball_query_forward", "knn_forward", "stack_ball_query_forward", "three_nn_forward"]


def ball_query_forward(
    new_xyz_tensor: Tensor,
    xyz_tensor: Tensor,
    idx_tensor: Tensor,
    b: int,
    n: int,
    m: int,
    min_radius: float,
    max_radius: float,
    nsample: int,
) -> None:
    """Find, for each centre, the first ``nsample`` points in a ball or shell around it.

    A point is taken if its distance is 0 or in [min_radius, max_radius). A row with fewer than ``nsample``
    points is padded with its first; a row with none keeps its values.

    Args:
        new_xyz_tensor: centres, (b, m, 3).
        xyz_tensor: points, (b, n, 3).
        idx_tensor: output, (b, m, nsample) int32.
    """
    smallest, largest = _squared_as_float32(min_radius), _squared_as_float32(max_radius)

    def in_shell(distances: Tensor) -> Tensor:
        return (distances == 0) | ((distances >= smallest) & (distances < largest))

    for centres, points, indices in zip(new_xyz_tensor, xyz_tensor, idx_tensor):
        _first_in_region(centres, points, indices, nsample, in_shell)


def stack_ball_query_forward(
    new_xyz_tensor: Tensor,
    new_xyz_batch_cnt: Tensor,
    xyz_tensor: Tensor,
    xyz_batch_cnt: Tensor,
    idx_tensor: Tensor,
    max_radius: float,
    nsample: int,
) -> None:
    """Find, for each centre, the first ``nsample`` points of its sample in an open ball around it.

    A row with fewer points is padded with its first. A row with none gets -1 in its first place and keeps
    its other values.

    Args:
        new_xyz_tensor: centres of all samples, (M1 + M2 + ..., 3).
        new_xyz_batch_cnt: (B,) integer, M1, M2, ...
        xyz_tensor: points of all samples, (N1 + N2 + ..., 3).
        xyz_batch_cnt: (B,) integer, N1, N2, ...
        idx_tensor: output, (M1 + M2 + ..., nsample) int32, counted within the sample.
    """
    largest = _squared_as_float32(max_radius)
    centre_counts, point_counts = new_xyz_batch_cnt.tolist(), xyz_batch_cnt.tolist()
    samples = zip(
        new_xyz_tensor.split(centre_counts), xyz_tensor.split(point_counts), idx_tensor.split(centre_counts)
    )
    for centres, points, indices in samples:
        found = _first_in_region(centres, points, indices, nsample, lambda distances: distances < largest)
        indices[:, 0].masked_fill_(~found, -1)


def knn_forward(
    xyz_tensor: Tensor,
    new_xyz_tensor: Tensor,
    idx_tensor: Tensor,
    dist2_tensor: Tensor,
    b: int,
    n: int,
    m: int,
    nsample: int,
) -> None:
    """Find the ``nsample`` nearest points of each centre, nearest first, of equally near ones the first.

    Points at a squared distance of 1e10 or more do not count; what is missing has index 0 and distance 1e10.

    Args:
        xyz_tensor: points, (b, n, 3).
        new_xyz_tensor: centres, (b, m, 3).
        idx_tensor: output, (b, m, nsample) int32.
        dist2_tensor: output, (b, m, nsample), squared distances.
    """
    _nearest(new_xyz_tensor, xyz_tensor, idx_tensor, dist2_tensor, limit=1e10)


def three_nn_forward(
    unknown_tensor: Tensor,
    known_tensor: Tensor,
    dist2_tensor: Tensor,
    idx_tensor: Tensor,
    b: int,
    n: int,
    m: int,
) -> None:
    """Find the three nearest known points, nearest first, of equally near ones the first.

    With fewer than three known points, what is missing has index 0 and distance 1e40 (infinity where the
    dtype does not reach that far).

    Args:
        unknown_tensor: (b, n, 3).
        known_tensor: (b, m, 3).
        dist2_tensor: output, (b, n, 3), squared distances.
        idx_tensor: output, (b, n, 3) int32.
    """
    limit = 1e40 if dist2_tensor.dtype == torch.float64 else math.inf
    _nearest(unknown_tensor, known_tensor, idx_tensor, dist2_tensor, limit)


def _squared_as_float32(radius: float) -> float:
    """The compiled operators receive and square a radius as float32."""
    return float(torch.tensor(radius, dtype=torch.float32).square())


def _first_in_region(
    centres: Tensor, points: Tensor, indices: Tensor, nsample: int, region: Callable[[Tensor], Tensor]
) -> Tensor:
    """Write the first points in the region of each centre; return which centres have any, (M,) bool."""
    found = torch.zeros(centres.shape[0], dtype=torch.bool, device=centres.device)
    for start, stop, distances in squared_distances(centres, points):
        rows, columns, positions, counts = first_marked_columns(region(distances), nsample)
        columns = columns.to(indices.dtype)
        chunk = indices[start:stop]
        first = positions == 0
        chunk[rows[first]] = columns[first].unsqueeze(1)
        chunk[rows, positions] = columns
        found[start:stop] = counts > 0
    return found


def _nearest(centres: Tensor, points: Tensor, indices: Tensor, distances: Tensor, limit: float) -> None:
    """Write the nearest points of each centre, ordered by distance and index, that are nearer than limit."""
    indices.zero_()
    distances.fill_(limit)
    count = min(indices.shape[-1], points.shape[1])
    if count == 0:
        return
    for sample in range(centres.shape[0]):
        for start, stop, pairs in squared_distances(centres[sample], points[sample]):
            values, columns = smallest_columns(pairs.masked_fill_(~(pairs < limit), math.inf), count)
            found = values < limit
            indices[sample, start:stop, :count] = columns.masked_fill(~found, 0).to(indices.dtype)
            distances[sample, start:stop, :count] = values.masked_fill(~found, limit).to(distances.dtype)
