"""Sampling of points: furthest point sampling, and picking points by index.

Furthest point sampling (Eldar et al., "The farthest point strategy for progressive image sampling", 1997)
starts at point 0 and takes, each time, the point whose distance to the points taken is greatest. Facts about
behaviour: mmcv 2.1.0, ``ops/csrc/common/cuda/{furthest_point_sample,gather_points}_cuda_kernel.cuh``.
"""

from __future__ import annotations

from typing import Callable

import torch
from torch import Tensor

__all__ = [
    "furthest_point_sampling_forward",
    "furthest_point_sampling_with_dist_forward",
    "gather_points_backward",
    "gather_points_forward",
]


def furthest_point_sampling_forward(
    points_tensor: Tensor, temp_tensor: Tensor, idx_tensor: Tensor, b: int, n: int, m: int
) -> None:
    """Sample ``m`` points, each the furthest from those before it; of equally far ones the first.

    (Among equally far points the compiled operator prefers one that depends on its thread layout.)

    Args:
        points_tensor: (b, n, 3), floating.
        temp_tensor: (b, n), large values, such as 1e10; afterwards the squared distance of each point to the
            nearest of the first m - 1 points taken.
        idx_tensor: output, (b, m) int32.
    """
    dtype = torch.float64 if points_tensor.dtype == torch.float64 else torch.float32
    axes = points_tensor.to(dtype).permute(2, 0, 1).contiguous()

    def distances_to(taken: Tensor) -> Tensor:
        differences = axes - axes.gather(2, taken.expand(axes.shape[0], -1, -1))
        return differences.square_().sum(0)

    _furthest_points(distances_to, temp_tensor, idx_tensor)


def furthest_point_sampling_with_dist_forward(
    points_tensor: Tensor, temp_tensor: Tensor, idx_tensor: Tensor, b: int, n: int, m: int
) -> None:
    """Like :func:`furthest_point_sampling_forward`, with given distances.

    Args:
        points_tensor: (b, n, n), the distance of each point (rows) to each point (columns).
        temp_tensor: (b, n), as there.
        idx_tensor: output, (b, m) int32.
    """

    def distances_to(taken: Tensor) -> Tensor:
        return points_tensor.gather(1, taken.unsqueeze(2).expand(-1, 1, points_tensor.shape[2])).squeeze(1)

    _furthest_points(distances_to, temp_tensor, idx_tensor)


def gather_points_forward(
    points_tensor: Tensor, idx_tensor: Tensor, out_tensor: Tensor, b: int, c: int, n: int, npoints: int
) -> None:
    """Pick columns: ``out[b, c, j] = points[b, c, idx[b, j]]``.

    Args:
        points_tensor: (b, c, n).
        idx_tensor: (b, npoints) int32.
        out_tensor: output, (b, c, npoints).
    """
    index = idx_tensor.long().unsqueeze(1).expand(-1, points_tensor.shape[1], -1)
    out_tensor.copy_(points_tensor.gather(2, index))


def gather_points_backward(
    grad_out_tensor: Tensor,
    idx_tensor: Tensor,
    grad_points_tensor: Tensor,
    b: int,
    c: int,
    n: int,
    npoints: int,
) -> None:
    """Add the gradient of :func:`gather_points_forward` to ``grad_points_tensor``.

    Args:
        grad_out_tensor: (b, c, npoints).
        idx_tensor: (b, npoints) int32.
        grad_points_tensor: (b, c, n), added to.
    """
    index = idx_tensor.long().unsqueeze(1).expand_as(grad_out_tensor)
    grad_points_tensor.scatter_add_(2, index, grad_out_tensor)


def _furthest_points(
    distances_to: Callable[[Tensor], Tensor], nearest_distances: Tensor, indices: Tensor
) -> None:
    """Each step depends on the one before, so this loop is over samples; a step handles all points."""
    indices.zero_()
    if nearest_distances.shape[1] == 0:
        return
    taken = torch.zeros(indices.shape[0], 1, dtype=torch.int64, device=indices.device)
    for step in range(1, indices.shape[1]):
        torch.minimum(
            nearest_distances, distances_to(taken).to(nearest_distances.dtype), out=nearest_distances
        )
        taken = nearest_distances.argmax(dim=1, keepdim=True)
        indices[:, step : step + 1] = taken
