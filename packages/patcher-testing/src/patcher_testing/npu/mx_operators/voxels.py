"""Voxelization of point clouds (Zhou and Tuzel, 2017, https://arxiv.org/abs/1711.06396) and grouping by
voxel.
"""

from __future__ import annotations

from typing import Sequence

import torch


def _coordinates(
    points: torch.Tensor, voxel_size: Sequence[float], lower: Sequence[float], grid: Sequence[int]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Integer x, y, z of each point's voxel, and whether it lies within the grid."""
    scaled = (points[:, :3] - torch.tensor(lower[:3])) / torch.tensor(voxel_size)
    voxels = scaled.floor().to(torch.int32)
    inside = ((voxels >= 0) & (voxels < torch.tensor(grid))).all(dim=1)
    return voxels, inside


def dynamic_voxelization(
    points: torch.Tensor,
    coordinates: torch.Tensor,
    grid_x: int,
    grid_y: int,
    grid_z: int,
    voxel_x: float,
    voxel_y: float,
    voxel_z: float,
    lower_x: float,
    lower_y: float,
    lower_z: float,
) -> torch.Tensor:
    """z, y, x of each point's voxel (int32); -1 for points outside the range."""
    voxels, inside = _coordinates(
        points, (voxel_x, voxel_y, voxel_z), (lower_x, lower_y, lower_z), (grid_x, grid_y, grid_z)
    )
    return torch.where(inside.unsqueeze(1), voxels.flip(1), -1).to(torch.int32)


def hard_voxelize(
    points: torch.Tensor,
    voxel_size: Sequence[float],
    point_range: Sequence[float],
    max_points: int,
    max_voxels: int,
    layout: str,
) -> tuple[int, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Voxels in the order in which their first point appears, each with its first `max_points` points.

    Returns their number, the points (voxels, max_points, features; zeros where there are fewer), the
    coordinates (int32, in the order that `layout` names) and the number of points kept in each.
    """
    if layout not in ("XYZ", "ZYX"):
        raise RuntimeError(f"hard_voxelize: layout must be 'XYZ' or 'ZYX', got {layout!r}")
    grid = [round((point_range[axis + 3] - point_range[axis]) / voxel_size[axis]) for axis in range(3)]
    voxels, inside = _coordinates(points, voxel_size, point_range, grid)
    slot_of: dict[tuple[int, ...], int] = {}
    counts: list[int] = []
    kept = points.new_zeros(max_voxels, max_points, points.size(1))
    for row in torch.nonzero(inside).flatten().tolist():
        voxel = tuple(voxels[row].tolist())
        if voxel not in slot_of:
            if len(slot_of) == max_voxels:
                continue
            slot_of[voxel] = len(slot_of)
            counts.append(0)
        slot = slot_of[voxel]
        if counts[slot] < max_points:
            kept[slot, counts[slot]] = points[row]
            counts[slot] += 1
    coordinates = torch.tensor(list(slot_of), dtype=torch.int32).reshape(-1, 3)
    if layout == "ZYX":
        coordinates = coordinates.flip(1)
    return len(counts), kept[: len(counts)].clone(), coordinates, torch.tensor(counts, dtype=torch.int32)


def unique_voxel(
    voxels: torch.Tensor,
) -> tuple[int, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Groups equal voxel numbers; negative ones stand for "no voxel" and form no group.

    Returns the number of groups, their voxel numbers ascending, where each begins in the sorted order, the
    sorted order (positions in `voxels`, stable), and the position of each group's first member. All int32.
    """
    order = torch.argsort(voxels, stable=True)
    ordered = voxels[order]
    begins = torch.ones_like(ordered, dtype=torch.bool)
    begins[1:] = ordered[1:] != ordered[:-1]
    starts = torch.nonzero(begins & (ordered >= 0)).flatten()
    return len(starts), ordered[starts].int(), starts.int(), order.int(), order[starts].int()


REFERENCES = {
    "dynamic_voxelization": dynamic_voxelization,
    "hard_voxelize": hard_voxelize,
    "unique_voxel": unique_voxel,
}
