"""Clouds of points, in a cube with sides of 50 m."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .sizes import Size, many

#: Points that are looked at from somewhere: centres, boxes; channels of their features; neighbours.
CENTRES, BOXES, CHANNELS, NEIGHBOURS = 500, 40, 16, 8
VOXEL = torch.tensor([0.2, 0.2, 50.0])
BOUNDS = torch.tensor([0.0, 0.0, 0.0, 50.0, 50.0, 50.0])


def cloud(count: int, axes: int = 3) -> Tensor:
    """(1, count, axes)."""
    return torch.rand(1, count, axes) * 50


def features(count: int) -> Tensor:
    """(1, channels, count)."""
    return torch.randn(1, CHANNELS, count)


def solid_boxes() -> Tensor:
    """(boxes, 7)."""
    return torch.cat([torch.rand(BOXES, 3) * 40, torch.rand(BOXES, 3) * 10 + 5, torch.randn(BOXES, 1)], 1)


def counts(*values: int) -> Tensor:
    return torch.tensor(values, dtype=torch.int32)


def voxel_places(count: int) -> Tensor:
    return many(count, 3, below=40)


def furthest(size: Size) -> tuple[Any, ...]:
    return cloud(size.count), torch.full((1, size.count), 1e10), many(1, 64, below=1), 1, size.count, 64


def furthest_with_distances(size: Size) -> tuple[Any, ...]:
    return (
        torch.rand(1, size.side, size.side),
        torch.full((1, size.side), 1e10),
        many(1, 64, below=1),
        1,
        size.side,
        64,
    )


def hard_voxels(size: Size) -> tuple[Any, ...]:
    voxels, places = torch.zeros(20_000, 32, 4), many(20_000, 3, below=1)
    return (
        cloud(size.count, 4)[0], VOXEL, BOUNDS, voxels, places, places[:, 0].clone(),
        torch.zeros((), dtype=torch.long), 32, 20_000, 3, True,
    )  # fmt: skip


def voxel_gradients(size: Size) -> tuple[Any, ...]:
    rows, voxels = torch.randn(size.count, CHANNELS), size.count // 10
    return (
        torch.zeros_like(rows), torch.randn(voxels, CHANNELS), rows, rows[:voxels].clone(),
        many(size.count, below=voxels), many(voxels, below=9) + 1, "max",
    )  # fmt: skip


def pooled_cells() -> tuple[Tensor, Tensor, Tensor]:
    """The largest point of each cell, the points of each cell, and what is pooled."""
    cells = (BOXES, 10, 10, 10)
    return many(*cells, CHANNELS, below=1), many(*cells, 32, below=1), torch.zeros(*cells, CHANNELS)


def cell_gradients(size: Size) -> tuple[Any, ...]:
    largest, members, gradient = pooled_cells()
    return members, many(*largest.shape, below=size.count), gradient, torch.zeros(size.count, CHANNELS), 0


def assembly(size: Size) -> tuple[Any, ...]:
    points = torch.randn(1, size.count, 4, CHANNELS)
    scores, neighbours = (
        torch.rand(1, size.count, NEIGHBOURS, 4),
        torch.randint(0, size.count, (1, size.count, NEIGHBOURS)),
    )
    sizes = (1, size.count, size.count, 4, NEIGHBOURS, CHANNELS, 1)
    output = torch.zeros(1, CHANNELS, size.count, NEIGHBOURS)
    return points, points.clone(), scores, neighbours, output, *sizes


def assembly_gradients(size: Size) -> tuple[Any, ...]:
    points, centres, scores, neighbours, gradient, *sizes = assembly(size)
    inputs = (points, centres, scores)
    return gradient, *inputs, neighbours, *map(torch.zeros_like, inputs), *sizes


def active_cells(size: Size, axes: int) -> Tensor:
    """The sample, 0, and distinct positions, (count, 1 + axes), on a grid that is ten times as large."""
    extent = grid_extent(size, axes)
    place = (
        torch.randperm(extent**axes)[: size.count]
        if axes < 4
        else torch.randint(0, extent**4, (size.count,)).unique()
    )
    return torch.stack([place * 0, *(place // extent**axis % extent for axis in range(axes))], 1).int()


def grid_extent(size: Size, axes: int) -> int:
    return int((10 * size.count) ** (1 / axes)) + 1


def rule_book(size: Size, axes: int, grid: bool = False) -> tuple[Any, ...]:
    extents = [grid_extent(size, axes)] * axes
    lent = (torch.full((extents[0] ** axes,), -1, dtype=torch.int32),) if grid else ()
    ones = [1] * axes
    return (
        active_cells(size, axes),
        *lent,
        1,
        extents,
        extents,
        [3] * axes,
        ones,
        ones,
        ones,
        [0] * axes,
        0,
        0,
    )


def pairs_of_cells(size: Size) -> tuple[Tensor, Tensor]:
    """A rule book of 27 offsets in which every cell meets one."""
    return torch.stack([torch.randperm(size.count).int() for _ in range(54)]).view(27, 2, -1), counts(
        *[size.count] * 27
    )


def sparse(size: Size, *between: Any) -> tuple[Any, ...]:
    filters = torch.randn(3, 3, 3, CHANNELS, CHANNELS)
    return torch.randn(size.count, CHANNELS), filters, *between, *pairs_of_cells(size)


def neighbours_of_points(size: Size) -> Tensor:
    return many(1, size.count, NEIGHBOURS, below=size.count)


def grouped(size: Size) -> Tensor:
    return torch.randn(1, CHANNELS, size.count, NEIGHBOURS)


GROUPING = (1, CHANNELS)

POINTS = {
    "assign_score_withk_backward": assembly_gradients,
    "assign_score_withk_forward": assembly,
    "ball_query_forward": lambda size: (
        cloud(CENTRES), cloud(size.count), many(1, CENTRES, 32, below=1), 1, size.count, CENTRES, 0.0, 5.0, 32,
    ),
    "chamfer_distance_backward": lambda size: (
        cloud(size.count, 2), cloud(size.count, 2), many(1, size.count, below=size.count),
        many(1, size.count, below=size.count), torch.rand(1, size.count), torch.rand(1, size.count),
        torch.zeros(1, size.count, 2), torch.zeros(1, size.count, 2),
    ),
    "chamfer_distance_forward": lambda size: (
        cloud(size.count, 2), cloud(CENTRES, 2), torch.zeros(1, size.count), torch.zeros(1, CENTRES),
        many(1, size.count, below=1), many(1, CENTRES, below=1),
    ),
    "dynamic_point_to_voxel_backward": voxel_gradients,
    "dynamic_point_to_voxel_forward": lambda size: (
        torch.randn(size.count, CHANNELS), voxel_places(size.count), "max",
    ),
    "dynamic_voxelize_forward": lambda size: (
        cloud(size.count, 4)[0], VOXEL, BOUNDS, many(size.count, 3, below=1), 3,
    ),
    "furthest_point_sampling_forward": furthest,
    "furthest_point_sampling_with_dist_forward": furthest_with_distances,
    "fused_indice_conv_forward": lambda size: (*sparse(size, torch.randn(CHANNELS)), size.count, 0, 0),
    "gather_points_backward": lambda size: (
        features(size.count), many(1, size.count, below=size.count), features(size.count), *GROUPING, size.count,
        size.count,
    ),
    "gather_points_forward": lambda size: (
        features(size.count), many(1, size.count, below=size.count), features(size.count), *GROUPING, size.count,
        size.count,
    ),
    "get_indice_pairs_2d_backward": lambda size: rule_book(size, 2, grid=True),
    "get_indice_pairs_2d_forward": lambda size: rule_book(size, 2),
    "get_indice_pairs_3d_backward": lambda size: rule_book(size, 3, grid=True),
    "get_indice_pairs_3d_forward": lambda size: rule_book(size, 3),
    "get_indice_pairs_4d_forward": lambda size: rule_book(size, 4),
    "group_points_backward": lambda size: (
        grouped(size), neighbours_of_points(size), features(size.count), *GROUPING, size.count, size.count, NEIGHBOURS,
    ),
    "group_points_forward": lambda size: (
        features(size.count), neighbours_of_points(size), grouped(size), *GROUPING, size.count, size.count, NEIGHBOURS,
    ),
    "hard_voxelize_forward": hard_voxels,
    "indice_conv_backward": lambda size: (*sparse(size, torch.randn(size.count, CHANNELS)), 0, 0),
    "indice_conv_forward": lambda size: (*sparse(size), size.count, 0, 0),
    "indice_maxpool_backward": lambda size: (
        *(torch.randn(size.count, CHANNELS) for _ in range(3)), *pairs_of_cells(size),
    ),
    "indice_maxpool_forward": lambda size: (torch.randn(size.count, CHANNELS), *pairs_of_cells(size), size.count),
    "knn_forward": lambda size: (
        cloud(size.count), cloud(CENTRES), many(1, CENTRES, 32, below=1), torch.zeros(1, CENTRES, 32), 1, size.count,
        CENTRES, 32,
    ),
    "points_in_boxes_all_forward": lambda size: (
        solid_boxes()[None], cloud(size.count), many(1, size.count, BOXES, below=1),
    ),
    "points_in_boxes_cpu_forward": lambda size: (
        solid_boxes(), cloud(size.count)[0], many(BOXES, size.count, below=1),
    ),
    "points_in_boxes_part_forward": lambda size: (solid_boxes()[None], cloud(size.count), many(1, size.count, below=1)),
    "roiaware_pool3d_backward": cell_gradients,
    "roiaware_pool3d_forward": lambda size: (
        solid_boxes(), cloud(size.count)[0], torch.randn(size.count, CHANNELS), *pooled_cells(), 0,
    ),
    "roipoint_pool3d_forward": lambda size: (
        cloud(size.count), solid_boxes()[None], torch.randn(1, size.count, CHANNELS),
        torch.zeros(1, BOXES, 512, 3 + CHANNELS), many(1, BOXES, below=1),
    ),
    "stack_ball_query_forward": lambda size: (
        cloud(CENTRES)[0], counts(CENTRES), cloud(size.count)[0], counts(size.count), many(CENTRES, 32, below=1), 5.0,
        32,
    ),
    "stack_group_points_backward": lambda size: (
        torch.randn(size.count, CHANNELS, NEIGHBOURS), neighbours_of_points(size)[0], counts(size.count),
        counts(size.count), torch.zeros(size.count, CHANNELS), 1, CHANNELS, size.count, size.count, NEIGHBOURS,
    ),
    "stack_group_points_forward": lambda size: (
        torch.randn(size.count, CHANNELS), counts(size.count), neighbours_of_points(size)[0], counts(size.count),
        torch.zeros(size.count, CHANNELS, NEIGHBOURS), 1, CHANNELS, size.count, NEIGHBOURS,
    ),
    "three_interpolate_backward": lambda size: (
        features(size.count), many(1, size.count, 3, below=CENTRES), torch.rand(1, size.count, 3), features(CENTRES),
        *GROUPING, size.count, CENTRES,
    ),
    "three_interpolate_forward": lambda size: (
        features(CENTRES), many(1, size.count, 3, below=CENTRES), torch.rand(1, size.count, 3), features(size.count),
        *GROUPING, CENTRES, size.count,
    ),
    "three_nn_forward": lambda size: (
        cloud(size.count), cloud(CENTRES), torch.zeros(1, size.count, 3), many(1, size.count, 3, below=1), 1,
        size.count, CENTRES,
    ),
}  # fmt: skip
