"""Intersections of pairs of quadrilaterals, rotated boxes among them.

As in ``csrc/common/box_iou_rotated_utils.hpp`` of mmcv 2.1.0, the intersection is the convex hull of the
points in which the sides cross and of the vertices of each quadrilateral that lie in the other. A vertex P
counts as inside ABCD if its projections on AB and on AD lie within these sides: true for rectangles, an
approximation for others.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .polygons import convex_hulls, cross, polygon_areas, sort_by_angle

__all__ = ["Quadrilaterals", "intersection_areas"]

#: Sides whose cross product is not larger than this are parallel.
_PARALLEL = 1e-14


class Quadrilaterals(NamedTuple):
    """n quadrilaterals; vertices are relative to centres, so that far from 0 no digits are lost."""

    #: (n, 2)
    centres: Tensor
    #: Vertices around their centre, (n, 4, 2).
    vertices: Tensor
    #: (n,)
    areas: Tensor
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
        return cls(boxes[:, :2], vertices, boxes[:, 2] * boxes[:, 3], True)

    @classmethod
    def from_vertices(cls, vertices: Tensor) -> Quadrilaterals:
        """Four vertices each, (n, 8)."""
        vertices = vertices.reshape(-1, 4, 2)
        centres = vertices.mean(1)
        vertices = vertices - centres[:, None]
        sides = vertices[:, 1:] - vertices[:, :1]
        areas = cross(sides[:, :-1], sides[:, 1:]).abs().sum(1) / 2
        return cls(centres, vertices, areas, False)

    def select(self, index: Tensor) -> Quadrilaterals:
        """Those at the positions ``index``."""
        return Quadrilaterals(self.centres[index], self.vertices[index], self.areas[index], self.rectangular)


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
    if not first.rectangular:
        return torch.ones_like(first.areas, dtype=torch.bool)
    reach = first.vertices.abs().amax(1) + second.vertices.abs().amax(1) + margin
    return ((first.centres - second.centres).abs() <= reach).all(1)


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
