"""Intersections of pairs of quadrilaterals, rotated boxes among them.

As in ``csrc/common/box_iou_rotated_utils.hpp`` of mmcv 2.1.0, the intersection is the convex hull of the
points in which the sides cross and of the vertices of each quadrilateral that lie in the other. A vertex P
counts as inside ABCD if its projections on AB and on AD lie within these sides: true for rectangles, an
approximation for others.
"""

from __future__ import annotations

from typing import Callable, NamedTuple

import torch
from torch import Tensor

from .chunking import row_ranges
from .polygons import convex_hulls, cross, polygon_areas, sort_by_angle

__all__ = ["Quadrilaterals", "compare_pairs", "intersection_areas"]

#: Sides whose cross product is not larger than this are parallel.
_PARALLEL = 1e-14
#: By how much more than computed a quadrilateral may reach: far more than rounding adds.
_REACH_MARGIN = 1e-3
#: Pairs of which a step looks at the centres, and pairs that it intersects.
NEARNESS_PAIRS, INTERSECTED_PAIRS = 1 << 18, 1 << 13


class Quadrilaterals(NamedTuple):
    """n quadrilaterals; vertices are relative to centres, so that far from 0 no digits are lost."""

    #: (n, 2)
    centres: Tensor
    #: Vertices around their centre, (n, 4, 2).
    vertices: Tensor
    #: (n,)
    areas: Tensor
    #: How far from the centre, along x and y, there can be a point that counts as inside, (n, 2).
    reach: Tensor
    #: Whether all are rectangles.
    rectangular: bool

    @classmethod
    def from_rotated_boxes(cls, boxes: Tensor) -> Quadrilaterals:
        """Boxes (n, 5): centre x and y, width, height, angle in radians, from x towards y."""
        width, height = boxes[:, 2, None], boxes[:, 3, None]
        cosine, sine = boxes[:, 4, None].cos() / 2, boxes[:, 4, None].sin() / 2
        along = boxes.new_tensor([-1, -1, 1, 1]) * width
        across = boxes.new_tensor([1, -1, -1, 1]) * height
        vertices = torch.stack([cosine * along - sine * across, sine * along + cosine * across], 2)
        return cls(boxes[:, :2], vertices, boxes[:, 2] * boxes[:, 3], vertices.abs().amax(1), True)

    @classmethod
    def from_vertices(cls, vertices: Tensor) -> Quadrilaterals:
        """Four vertices each, (n, 8)."""
        vertices = vertices.reshape(-1, 4, 2)
        centres = vertices.mean(1)
        vertices = vertices - centres[:, None]
        sides = vertices[:, 1:] - vertices[:, :1]
        areas = cross(sides[:, :-1], sides[:, 1:]).abs().sum(1) / 2
        return cls(centres, vertices, areas, _reach(vertices), False)

    def select(self, index: Tensor) -> Quadrilaterals:
        """Those at the positions ``index``."""
        columns = (column[index] for column in (self.centres, self.vertices, self.areas, self.reach))
        return Quadrilaterals(*columns, self.rectangular)


def compare_pairs(
    first: Quadrilaterals,
    second: Quadrilaterals,
    compare: Callable[[Quadrilaterals, Quadrilaterals], Tensor],
    margin: float = 0.0,
) -> Tensor:
    """``compare`` of every pair, (n, m), which must be 0 for those that have no point in common.

    It is given aligned pairs, those that are near one another; vertices up to ``margin`` outside count as inside.
    """
    values = first.areas.new_zeros(len(first.areas), len(second.areas))
    for start, stop in row_ranges(*values.shape, NEARNESS_PAIRS):
        apart = torch.zeros_like(values[start:stop], dtype=torch.bool)
        for axis in range(2):
            distance = (first.centres[start:stop, None, axis] - second.centres[:, axis]).abs_()
            apart |= distance > (first.reach[start:stop, None, axis] + second.reach[:, axis]).add_(margin)
        rows, columns = (~apart).nonzero(as_tuple=True)
        rows += start
        for begin, end in row_ranges(len(rows), 1, INTERSECTED_PAIRS):
            row, column = rows[begin:end], columns[begin:end]
            values[row, column] = compare(first.select(row), second.select(column))
    return values


def intersection_areas(first: Quadrilaterals, second: Quadrilaterals, margin: float = 0.0) -> Tensor:
    """Areas of the intersections of pairs, (n,). Vertices up to ``margin`` outside count as inside."""
    areas = torch.zeros_like(first.areas)
    near = _near(first, second, margin).nonzero().squeeze(1)
    first, second = first.select(near), second.select(near)
    half = (second.centres - first.centres)[:, None] / 2
    points, valid = _common_points(first.vertices - half, second.vertices + half, margin)
    several = (valid.sum(1) > 2).nonzero().squeeze(1)
    points, valid = _leading(points[several], valid[several])
    # All common points of rectangles are corners of the intersection.
    outlines = sort_by_angle(points, valid)[0] if first.rectangular else convex_hulls(points, valid)
    areas[near[several]] = polygon_areas(outlines).abs()
    return areas


def _near(first: Quadrilaterals, second: Quadrilaterals, margin: float) -> Tensor:
    """Which pairs may intersect."""
    return ((first.centres - second.centres).abs() <= first.reach + second.reach + margin).all(1)


def _reach(vertices: Tensor) -> Tensor:
    """How far vertices (n, 4, 2) around their centres reach, and the points that :func:`_inside` accepts.

    Those lie in a parallelogram at the first vertex A: its corners are A + p, where the projections of p on AB
    and on AD are nothing or these whole sides. Without bound, where the sides are parallel.
    """
    sides = torch.stack([vertices[:, 1] - vertices[:, 0], vertices[:, 3] - vertices[:, 0]], 1)
    determinant = cross(sides[:, 0], sides[:, 1])[:, None]
    normals = torch.stack([sides[..., 1], -sides[..., 0]], 2)
    squares = (sides * sides).sum(2)[..., None]
    along_first = squares[:, 0] * normals[:, 1] / determinant
    along_second = -squares[:, 1] * normals[:, 0] / determinant
    steps = torch.stack([along_first, along_second, along_first + along_second], 1)
    reach = torch.cat([vertices, vertices[:, :1] + steps], 1).abs().amax(1) * (1 + _REACH_MARGIN)
    return torch.where(reach.isfinite(), reach, torch.full_like(reach, float("inf")))


def _common_points(first: Tensor, second: Tensor, margin: float) -> tuple[Tensor, Tensor]:
    """Candidates for corners of the intersections (n, 24, 2), and which are some (n, 24)."""
    first_sides, second_sides = first.roll(-1, 1) - first, second.roll(-1, 1) - second
    between = second[:, None] - first[:, :, None]
    along_first, along_second = first_sides[:, :, None], second_sides[:, None]
    determinant = cross(along_second, along_first)
    crossing = determinant.abs() > _PARALLEL
    determinant = torch.where(crossing, determinant, torch.ones_like(determinant))
    part_first, part_second = (
        cross(along_second, between) / determinant,
        cross(along_first, between) / determinant,
    )
    crossing &= (part_first >= 0) & (part_first <= 1) & (part_second >= 0) & (part_second <= 1)
    crossings = first[:, :, None] + along_first * part_first[..., None]
    points = torch.cat([crossings.flatten(1, 2), first, second], 1)
    inside = [_inside(first, second, second_sides, margin), _inside(second, first, first_sides, margin)]
    return points, torch.cat([crossing.flatten(1), *inside], 1)


def _inside(points: Tensor, vertices: Tensor, sides: Tensor, margin: float) -> Tensor:
    """Which of the points (n, 4, 2) project into both sides at the first vertex."""
    relative = points - vertices[:, :1]
    inside = torch.ones_like(relative[..., 0], dtype=torch.bool)
    for side in (sides[:, :1], -sides[:, 3:]):
        projection, square = (relative * side).sum(-1), (side * side).sum(-1)
        room = square.sqrt() * margin
        inside &= (projection >= -room) & (projection <= square + room)
    return inside


def _leading(points: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
    """Move the valid points to the front and cut off what no set needs."""
    room = int(valid.sum(1).max()) if len(valid) else 0
    order = valid.int().argsort(1, descending=True)[:, :room]
    return points.gather(1, order[..., None].expand(-1, -1, 2)), valid.gather(1, order)
