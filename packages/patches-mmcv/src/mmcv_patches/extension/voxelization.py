"""Points to voxels: hard and dynamic voxelization, and pooling of point features within voxels.

A voxel is a cell of a regular grid. Its coordinate along an axis is ``floor((position - lower) / size)``, and
its coordinates are stored last axis first: (z, y, x). Positions are compared in float32 (float64 points in
float64), as the compiled operators do. Facts about behaviour: mmcv 2.1.0, ``ops/csrc/pytorch/cpu/
voxelization.cpp`` and ``ops/csrc/pytorch/cuda/scatter_points_cuda.cu``.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .flat_indices import unflatten_indices
from .scattering import scatter_extreme_
from .selection import repeated

__all__ = [
    "dynamic_point_to_voxel_backward",
    "dynamic_point_to_voxel_forward",
    "dynamic_voxelize_forward",
    "hard_voxelize_forward",
]

#: Voxel indices above this do not fit int32, whose sort is the faster one.
_LARGEST_INT32 = (1 << 31) - 1

#: Coordinates whose ranges multiply to more than this cannot be packed into one int64.
_LARGEST_PACKED_INDEX = (1 << 62) - 1


def dynamic_voxelize_forward(
    points: Tensor, voxel_size: Tensor, coors_range: Tensor, coors: Tensor, NDim: int = 3
) -> None:
    """Write the voxel of each point into ``coors``.

    Args:
        points: (N, C >= NDim), floating; the first NDim columns are the position.
        voxel_size: (NDim,) float32, in the unit of the points.
        coors_range: (2 * NDim,) float32, lower then upper bounds.
        coors: output, (N, NDim) int32, last axis first; -1 throughout for a point outside the range.
        NDim: number of axes.
    """
    cells, inside, _ = _cells(points, voxel_size, coors_range, NDim)
    for axis, cell in enumerate(cells):
        coors[:, NDim - 1 - axis] = cell.masked_fill_(~inside, -1).to(coors.dtype)


def hard_voxelize_forward(
    points: Tensor,
    voxel_size: Tensor,
    coors_range: Tensor,
    voxels: Tensor,
    coors: Tensor,
    num_points_per_voxel: Tensor,
    voxel_num: Tensor,
    max_points: int,
    max_voxels: int,
    NDim: int = 3,
    deterministic: bool = True,
) -> None:
    """Collect the points of each voxel, in the order of the points.

    Voxels are numbered by their first point. Points after the first ``max_points`` of a voxel, and voxels
    after the first ``max_voxels``, are dropped; -1 means no limit. What is not written keeps its value.

    Args:
        points: (N, C >= NDim), floating; the first NDim columns are the position.
        voxel_size: (NDim,) float32.
        coors_range: (2 * NDim,) float32, lower then upper bounds.
        voxels: output, (max_voxels, max_points, C), the points.
        coors: output, (max_voxels, NDim) int32, last axis first.
        num_points_per_voxel: output, (max_voxels,) int32.
        voxel_num: output, 0-d int64, the number of voxels found.
        max_points: most points kept in a voxel.
        max_voxels: most voxels kept.
        NDim: number of axes.
        deterministic: accepted; the result is the deterministic one in both cases.
    """
    if points.shape[0] == 0:
        voxel_num.zero_()
        return
    cells, inside, grid = _cells(points, voxel_size, coors_range, NDim)
    flat = _flat_cells(cells, inside, grid)
    order, starts, counts = _runs(flat, math.prod(grid))

    first_points = order.index_select(0, starts)
    is_first = torch.zeros_like(inside)
    is_first[first_points] = True
    numbers = is_first.cumsum(0).index_select(0, first_points) - 1
    if max_points != -1:
        counts.clamp_(max=max_points)
    if max_voxels != -1:
        kept = (numbers < max_voxels).nonzero().squeeze(1)
        first_points, starts, counts, numbers = (
            values.index_select(0, kept) for values in (first_points, starts, counts, numbers)
        )

    voxel_num.fill_(numbers.numel())
    num_points_per_voxel[numbers] = counts.to(num_points_per_voxel.dtype)
    coors[numbers] = unflatten_indices(flat.index_select(0, first_points), grid[::-1]).to(coors.dtype)
    voxel, positions = repeated(counts)
    sources = order.index_select(0, starts.index_select(0, voxel).add_(positions))
    voxels[numbers.index_select(0, voxel), positions] = points.index_select(0, sources)


def dynamic_point_to_voxel_forward(feats: Tensor, coors: Tensor, reduce_type: str) -> list[Tensor]:
    """Reduce the features of the points of each voxel.

    Args:
        feats: (N, C), floating.
        coors: (N, D), integer; a row with a negative coordinate belongs to no voxel.
        reduce_type: ``"sum"``, ``"mean"`` or ``"max"``.

    Returns:
        The reduced features (M, C); the coordinates of the voxels (M, D) in ascending order; the voxel of
        each point (N,) int32, -1 for none; the number of points of each voxel (M,) int32.
    """
    _check_reduce_type(reduce_type)
    if feats.shape[0] == 0:
        nothing = coors.new_empty(0, dtype=torch.int32)
        return [feats.clone(), coors.clone(), nothing, nothing.clone()]

    voxel_coors, point_to_voxel, counts = _unique_voxels(coors)
    in_voxel = (point_to_voxel >= 0).nonzero().squeeze(1)
    voxel_of_feature = point_to_voxel[in_voxel]
    feats = feats[in_voxel]
    shape = (voxel_coors.shape[0], feats.shape[1])
    if reduce_type == "max":
        reduced = feats.new_full(shape, -math.inf)
        scatter_extreme_(reduced, voxel_of_feature, feats, "amax")
    else:
        reduced = feats.new_zeros(shape).index_add_(0, voxel_of_feature, feats)
        if reduce_type == "mean":
            reduced /= counts.unsqueeze(1).to(reduced.dtype)
    return [reduced, voxel_coors, point_to_voxel.to(torch.int32), counts.to(torch.int32)]


def dynamic_point_to_voxel_backward(
    grad_feats: Tensor,
    grad_reduced_feats: Tensor,
    feats: Tensor,
    reduced_feats: Tensor,
    coors_idx: Tensor,
    reduce_count: Tensor,
    reduce_type: str,
) -> None:
    """Write the gradient of :func:`dynamic_point_to_voxel_forward` with respect to ``feats``.

    The gradient of a maximum goes to the first point that attains it.

    Args:
        grad_feats: output, (N, C).
        grad_reduced_feats: (M, C).
        feats: (N, C), the input of the forward pass.
        reduced_feats: (M, C), its result.
        coors_idx: (N,) int32, the voxel of each point, -1 for none.
        reduce_count: (M,) int32, the number of points of each voxel.
        reduce_type: ``"sum"``, ``"mean"`` or ``"max"``.
    """
    _check_reduce_type(reduce_type)
    grad_feats.zero_()
    in_voxel = (coors_idx >= 0).nonzero().squeeze(1)
    voxel_of_feature = coors_idx[in_voxel].long()
    if in_voxel.numel() == 0:
        return
    if reduce_type == "max":
        attained = feats[in_voxel] == reduced_feats[voxel_of_feature]
        after_last = feats.shape[0]
        candidates = torch.where(attained, in_voxel.unsqueeze(1), after_last)
        sources = torch.full_like(reduced_feats, after_last, dtype=torch.int64)
        scatter_extreme_(sources, voxel_of_feature, candidates, "amin")
        gradient = grad_feats.new_zeros(after_last + 1, feats.shape[1])
        grad_feats.copy_(gradient.scatter_(0, sources, grad_reduced_feats.to(gradient.dtype))[:-1])
        return
    gradient = grad_reduced_feats
    if reduce_type == "mean":
        gradient = gradient / reduce_count.unsqueeze(1).to(gradient.dtype)
    grad_feats[in_voxel] = gradient[voxel_of_feature].to(grad_feats.dtype)


def _cells(
    points: Tensor, voxel_size: Tensor, coors_range: Tensor, axes: int
) -> tuple[list[Tensor], Tensor, list[int]]:
    """The cell of each point along each axis (N,), whether it is in the grid (N,), and the grid's extents."""
    lower, upper, size = coors_range[:axes], coors_range[axes : 2 * axes], voxel_size[:axes]
    # C rounds half away from zero, torch.round to even.
    grid = [int(extent) for extent in ((upper - lower) / size).double().add(0.5).floor().tolist()]
    dtype = torch.float64 if points.dtype == torch.float64 else torch.float32
    # Tensors, not numbers: CUDA divides by a number through its reciprocal, which rounds differently.
    lower, size = lower.to(points.device, dtype), size.to(points.device, dtype)
    cells = []
    inside = torch.ones(points.shape[0], dtype=torch.bool, device=points.device)
    for axis in range(axes):
        cell = points[:, axis].to(dtype).sub(lower[axis : axis + 1]).div_(size[axis : axis + 1]).floor_()
        inside &= cell >= 0
        inside &= cell < grid[axis]
        cells.append(cell)
    return cells, inside, grid


def _flat_cells(cells: list[Tensor], inside: Tensor, grid: list[int]) -> Tensor:
    """One number for the cell of each point (N,), first axis fastest; outside, the number of cells."""
    outside = math.prod(grid)
    dtype = torch.int32 if outside <= _LARGEST_INT32 else torch.int64
    flat = cells[-1].to(dtype)
    for cell, extent in zip(cells[-2::-1], grid[-2::-1]):
        flat = flat.mul_(extent).add_(cell.to(dtype))
    return flat.masked_fill_(~inside, outside)


def _runs(values: Tensor, ignored: int) -> tuple[Tensor, Tensor, Tensor]:
    """Group equal values below ``ignored``: a stable order that sorts them, starts of groups, their sizes."""
    ascending, order = values.sort(stable=True)
    begins = torch.ones_like(ascending, dtype=torch.bool)
    torch.ne(ascending[1:], ascending[:-1], out=begins[1:])
    starts = begins.nonzero().squeeze(1)
    sizes = torch.diff(starts, append=starts.new_tensor([values.numel()]))
    if int(ascending[-1]) == ignored:
        starts, sizes = starts[:-1], sizes[:-1]
    return order, starts, sizes


def _unique_voxels(coors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Distinct valid rows in ascending order, the row of each point (-1 for invalid), and their counts."""
    valid = (coors >= 0).all(1)
    extents = [int(extent) + 1 for extent in coors.amax(0).clamp(min=0).tolist()]
    if math.prod(extents) > _LARGEST_PACKED_INDEX:
        cleaned = coors.masked_fill(~valid.unsqueeze(1), -1)
        rows, inverse, counts = torch.unique(cleaned, dim=0, return_inverse=True, return_counts=True)
    else:
        packed = torch.zeros_like(coors[:, 0], dtype=torch.int64)
        for column, extent in enumerate(extents):
            packed = packed * extent + coors[:, column]
        packed = packed.masked_fill(~valid, -1)
        unique, inverse, counts = torch.unique(packed, return_inverse=True, return_counts=True)
        rows = unflatten_indices(unique, extents).to(coors.dtype)
    invalid_rows = int(not bool(valid.all()))
    return rows[invalid_rows:], inverse - invalid_rows, counts[invalid_rows:]


def _check_reduce_type(reduce_type: str) -> None:
    if reduce_type not in ("sum", "mean", "max"):
        raise ValueError(f"reduce_type is {reduce_type!r}, expected 'sum', 'mean' or 'max'")
