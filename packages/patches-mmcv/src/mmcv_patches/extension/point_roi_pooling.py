"""Pooling of point features within 3D regions of interest.

RoI-aware pooling divides each box into cells and takes the maximum or the mean of the points of a cell (Shi
et al., "Part-A2 Net", 2020); RoI-point pooling takes the first points of each box (Shi et al., "PointRCNN",
2019). Boxes are those of :mod:`.points_in_boxes`. Facts about behaviour: mmcv 2.1.0,
``ops/csrc/common/cuda/{roiaware,roipoint}_pool3d_cuda_kernel.cuh``.
"""

from __future__ import annotations

import math
from typing import Iterator

import torch
from torch import Tensor

from .chunking import row_ranges
from .points_in_boxes import BoxMembers, box_members
from .scattering import scatter_extreme_
from .selection import positions_in_groups

__all__ = ["roiaware_pool3d_backward", "roiaware_pool3d_forward", "roipoint_pool3d_forward"]

_MAXIMUM, _MEAN = 0, 1


def roiaware_pool3d_forward(
    rois: Tensor,
    pts: Tensor,
    pts_feature: Tensor,
    argmax: Tensor,
    pts_idx_of_voxels: Tensor,
    pooled_features: Tensor,
    pool_method: int,
) -> None:
    """Pool the features of the points in each cell of each box.

    Args:
        rois: (T, 7).
        pts: (N, 3).
        pts_feature: (N, C).
        argmax: output of the maximum, (T, X, Y, Z, C) int32, the point taken, -1 for none.
        pts_idx_of_voxels: (T, X, Y, Z, P) int32, zeros; afterwards, of each cell, the number of its points
            and then those points, at most the first P - 1.
        pooled_features: output, (T, X, Y, Z, C); an empty cell keeps its values.
        pool_method: 0 maximum, 1 mean.
    """
    _check_pool_method(pool_method)
    points_of_cells = pts_idx_of_voxels.view(-1, pts_idx_of_voxels.shape[-1])
    cells_per_box = math.prod(pts_idx_of_voxels.shape[1:4])
    for members in box_members(rois, pts):
        cells = _cells_of_members(members, rois, pts, pts_idx_of_voxels.shape[1:4])
        cells, order = (cells + (members.start + members.boxes) * cells_per_box).sort(stable=True)
        counts = torch.bincount(cells, minlength=points_of_cells.shape[0])
        positions = positions_in_groups(cells, counts)
        kept = positions < points_of_cells.shape[1] - 1
        cells, positions, points = cells[kept], positions[kept], members.points[order][kept]
        points_of_cells[cells, positions + 1] = points.to(points_of_cells.dtype)
        occupied = cells[positions == 0]
        kept_counts = counts[occupied].clamp(max=points_of_cells.shape[1] - 1)
        points_of_cells[occupied, 0] = kept_counts.to(points_of_cells.dtype)

    features = pooled_features.view(-1, pooled_features.shape[-1])
    if pool_method == _MAXIMUM:
        _pool_maximum(pts_feature, points_of_cells, features, argmax.view(-1, argmax.shape[-1]))
    else:
        _pool_mean(pts_feature, points_of_cells, features)


def roiaware_pool3d_backward(
    pts_idx_of_voxels: Tensor, argmax: Tensor, grad_out: Tensor, grad_in: Tensor, pool_method: int
) -> None:
    """Add the gradient of :func:`roiaware_pool3d_forward` with respect to the features to ``grad_in``.

    Args:
        pts_idx_of_voxels: (T, X, Y, Z, P) int32, as filled by the forward pass.
        argmax: (T, X, Y, Z, C) int32, likewise.
        grad_out: (T, X, Y, Z, C).
        grad_in: (N, C), added to.
        pool_method: 0 maximum, 1 mean.
    """
    _check_pool_method(pool_method)
    gradient = grad_out.reshape(-1, grad_out.shape[-1])
    if pool_method == _MAXIMUM:
        sources = argmax.reshape(-1, argmax.shape[-1]).long()
        cells, channels = (sources >= 0).nonzero(as_tuple=True)
        points = sources[cells, channels]
        grad_in.index_put_((points, channels), gradient[cells, channels].to(grad_in.dtype), accumulate=True)
        return
    points_of_cells = pts_idx_of_voxels.reshape(-1, pts_idx_of_voxels.shape[-1])
    for cells, points in _cell_members(points_of_cells, gradient.shape[1]):
        counts = points_of_cells[cells, 0].unsqueeze(1)
        grad_in.index_add_(0, points, (gradient[cells] / counts).to(grad_in.dtype))


def roipoint_pool3d_forward(
    xyz: Tensor, boxes3d: Tensor, pts_feature: Tensor, pooled_features: Tensor, pooled_empty_flag: Tensor
) -> None:
    """Take the first S points of each box, repeating them in turn where there are fewer.

    Args:
        xyz: (B, N, 3).
        boxes3d: (B, T, 7).
        pts_feature: (B, N, C).
        pooled_features: output, (B, T, S, 3 + C), position and features; an empty box keeps its values.
        pooled_empty_flag: output, (B, T) int32, 1 for an empty box; other places keep their values.
    """
    wanted = pooled_features.shape[2]
    for sample, points in enumerate(xyz):
        for members in box_members(boxes3d[sample], points):
            counts = torch.bincount(members.boxes, minlength=members.stop - members.start)
            positions = positions_in_groups(members.boxes, counts)
            first = positions < wanted
            taken = positions.new_zeros(members.stop - members.start, wanted)
            taken[members.boxes[first], positions[first]] = members.points[first]
            occupied = (counts > 0).nonzero().squeeze(1)
            turn = torch.arange(wanted, device=xyz.device) % counts[occupied].unsqueeze(1)
            taken = taken[occupied].gather(1, turn)
            target = pooled_features[sample, members.start : members.stop]
            target[occupied, :, :3] = points[taken].to(target.dtype)
            target[occupied, :, 3:] = pts_feature[sample][taken]
            pooled_empty_flag[sample, members.start : members.stop].masked_fill_(counts == 0, 1)


def _cells_of_members(members: BoxMembers, rois: Tensor, points: Tensor, extents: torch.Size) -> Tensor:
    """The cell, within its box, of each pair of a box and a point in it, (K,) int64."""
    rois = rois[members.start : members.stop].to(members.local_x.dtype)[members.boxes]
    x_size, y_size, z_size = rois[:, 3], rois[:, 4], rois[:, 5]
    from_lower_corner = (
        members.local_x + x_size / 2,
        members.local_y + y_size / 2,
        points[members.points, 2].to(rois.dtype) - rois[:, 2],
    )
    cells = torch.zeros_like(members.boxes)
    for position, size, extent in zip(from_lower_corner, (x_size, y_size, z_size), extents):
        cells = cells * extent + (position / (size / extent)).long().clamp(0, extent - 1)
    return cells


def _pool_maximum(point_features: Tensor, points_of_cells: Tensor, pooled: Tensor, argmax: Tensor) -> None:
    lowest = pooled.new_full(pooled.shape, -math.inf)
    argmax.fill_(-1)
    for cells, points in _cell_members(points_of_cells, pooled.shape[1]):
        scatter_extreme_(lowest, cells, point_features[points], "amax")
    after_last = point_features.shape[0]
    sources = torch.full_like(argmax, after_last, dtype=torch.int64)
    for cells, points in _cell_members(points_of_cells, pooled.shape[1]):
        attained = point_features[points] == lowest[cells]
        scatter_extreme_(sources, cells, torch.where(attained, points.unsqueeze(1), after_last), "amin")
    found = (sources < after_last) & (lowest > -math.inf)
    argmax[found] = sources[found].to(argmax.dtype)
    pooled[found] = lowest[found]


def _pool_mean(point_features: Tensor, points_of_cells: Tensor, pooled: Tensor) -> None:
    dtype = torch.float64 if pooled.dtype == torch.float64 else torch.float32
    sums = torch.zeros(pooled.shape, dtype=dtype, device=pooled.device)
    for cells, points in _cell_members(points_of_cells, pooled.shape[1]):
        sums.index_add_(0, cells, point_features[points].to(dtype))
    counts = points_of_cells[:, 0]
    occupied = (counts > 0).nonzero().squeeze(1)
    pooled[occupied] = (sums[occupied] / counts[occupied].unsqueeze(1)).to(pooled.dtype)


def _cell_members(points_of_cells: Tensor, channels: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield ``(cells, points)``, int64, for all points of consecutive cells, a few cells at a time."""
    slots = points_of_cells.shape[1] - 1
    for start, stop in row_ranges(points_of_cells.shape[0], 4 * max(1, slots) * channels):
        chunk = points_of_cells[start:stop]
        filled = torch.arange(slots, device=chunk.device) < chunk[:, :1]
        cells, places = filled.nonzero(as_tuple=True)
        yield start + cells, chunk[cells, places + 1].long()


def _check_pool_method(pool_method: int) -> None:
    if pool_method not in (_MAXIMUM, _MEAN):
        raise ValueError(f"pool_method is {pool_method!r}, expected 0 (maximum) or 1 (mean)")
