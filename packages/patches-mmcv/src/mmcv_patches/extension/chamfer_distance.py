"""Chamfer distance of two sets of points in the plane.

Each point's squared distance to the nearest point of the other set (Barrow et al., 1977). Facts about
behaviour: mmcv 2.1.0, ``ops/csrc/common/cuda/chamfer_distance_cuda_kernel.cuh``.
"""

from __future__ import annotations

from torch import Tensor

from .distances import squared_distances

__all__ = ["chamfer_distance_backward", "chamfer_distance_forward"]


def chamfer_distance_forward(
    xyz1: Tensor, xyz2: Tensor, dist1: Tensor, dist2: Tensor, idx1: Tensor, idx2: Tensor
) -> None:
    """Find the nearest point of the other set, of equally near ones the first.

    Where the other set is empty, the outputs keep their values.

    Args:
        xyz1: (B, N, 2).
        xyz2: (B, M, 2).
        dist1: output, (B, N), squared distances of ``xyz1`` to ``xyz2``.
        dist2: output, (B, M), the other way.
        idx1: output, (B, N) int32, the nearest points.
        idx2: output, (B, M) int32.
    """
    _nearest_of_other_set(xyz1, xyz2, dist1, idx1)
    _nearest_of_other_set(xyz2, xyz1, dist2, idx2)


def chamfer_distance_backward(
    xyz1: Tensor,
    xyz2: Tensor,
    idx1: Tensor,
    idx2: Tensor,
    graddist1: Tensor,
    graddist2: Tensor,
    gradxyz1: Tensor,
    gradxyz2: Tensor,
) -> None:
    """Add the gradients of :func:`chamfer_distance_forward` to ``gradxyz1`` and ``gradxyz2``.

    The derivative of ``|a - b|^2`` is ``2 (a - b)`` for a, and its negative for b.

    Args:
        xyz1, xyz2, idx1, idx2: as in the forward pass.
        graddist1: (B, N).
        graddist2: (B, M).
        gradxyz1: (B, N, 2), added to.
        gradxyz2: (B, M, 2), added to.
    """
    _add_gradient(xyz1, xyz2, idx1, graddist1, gradxyz1, gradxyz2)
    _add_gradient(xyz2, xyz1, idx2, graddist2, gradxyz2, gradxyz1)


def _nearest_of_other_set(points: Tensor, others: Tensor, distances: Tensor, indices: Tensor) -> None:
    if others.shape[1] == 0:
        return
    for sample in range(points.shape[0]):
        for start, stop, pairs in squared_distances(points[sample], others[sample]):
            nearest = pairs.argmin(dim=1, keepdim=True)
            indices[sample, start:stop] = nearest.squeeze(1)
            distances[sample, start:stop] = pairs.gather(1, nearest).squeeze(1)


def _add_gradient(
    points: Tensor,
    others: Tensor,
    indices: Tensor,
    gradient: Tensor,
    grad_points: Tensor,
    grad_others: Tensor,
) -> None:
    if others.shape[1] == 0:
        return
    index = indices.long().unsqueeze(2).expand_as(points)
    step = 2 * gradient.unsqueeze(2) * (points - others.gather(1, index))
    grad_points.add_(step)
    grad_others.scatter_add_(1, index, step.neg_().to(grad_others.dtype))
