"""Convex hulls of nine points: their overlap with quadrilaterals, and the smallest rectangle around them.

For oriented RepPoints: Li et al., CVPR 2022. The generalized overlap is that of Rezatofighi et al.,
"Generalized Intersection over Union", CVPR 2019. What is computed is that of ``convex_iou_cuda_kernel.cuh``
and ``min_area_polygons_cuda.cuh`` of mmcv 2.1.0.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .chunking import row_ranges
from .polygons import clip_polygons, convex_hulls, polygon_areas
from .precision import to_accumulation_dtype

__all__ = ["convex_giou", "convex_iou", "min_area_polygons"]

_POINTS, _VERTICES = 9, 4
#: Pairs of a point set and a quadrilateral that are compared at once.
PAIRS = 1 << 13


def convex_iou(pointsets: Tensor, polygons: Tensor, ious: Tensor) -> None:
    """Write overlaps of the hulls of ``pointsets`` (n, 18) with ``polygons`` (m, 8) to ``ious`` (n, m)."""
    hulls, quadrilaterals = convex_hulls(_points(pointsets)), _points(polygons)
    for start, stop in row_ranges(ious.numel(), 1, PAIRS):
        pair = torch.arange(start, stop, device=ious.device)
        hull = hulls[torch.div(pair, ious.shape[1], rounding_mode="floor")]
        intersection, union = _intersection_and_union(hull, quadrilaterals[pair % ious.shape[1]])
        ious.view(-1)[start:stop] = (intersection / union).to(ious.dtype)


def convex_giou(pointsets: Tensor, polygons: Tensor, output: Tensor) -> None:
    """Write the generalized overlap of each hull with its polygon, and its gradient, to ``output`` (n, 19).

    ``pointsets`` is (n, 18), ``polygons`` (n, 8). The first 18 columns are the gradient for the points, 0
    for those that are no corner of the hull; the last is the overlap.
    """
    for start, stop in row_ranges(len(pointsets), 1, PAIRS):
        points, quadrilaterals = _points(pointsets[start:stop]), _points(polygons[start:stop])
        with torch.enable_grad():
            points.requires_grad_()
            intersection, union = _intersection_and_union(convex_hulls(points), quadrilaterals)
            around = polygon_areas(convex_hulls(torch.cat([points, quadrilaterals], 1)))
            giou = intersection / union - (around - union) / around
        (grad,) = torch.autograd.grad(giou, points, torch.ones_like(giou))
        output[start:stop, :-1] = grad.flatten(1).to(output.dtype)
        output[start:stop, -1] = giou.detach().to(output.dtype)


def min_area_polygons(pointsets: Tensor, polygons: Tensor) -> None:
    """Write the smallest rectangles around ``pointsets`` (n, 18) to ``polygons`` (n, 8).

    One side of the smallest rectangle lies along a side of the hull, so that the directions of those,
    modulo a right angle, are tried. The corners are those of largest x and smallest y, smallest both,
    smallest x and largest y, largest both, in the axes of the rectangle, the first of which points between
    0 and 90 degrees.
    """
    for start, stop in row_ranges(len(pointsets), 1, PAIRS):
        points = to_accumulation_dtype(pointsets[start:stop]).view(-1, _POINTS, 2)
        polygons[start:stop] = _smallest_rectangles(convex_hulls(points)).to(polygons.dtype)


def _smallest_rectangles(hulls: Tensor) -> Tensor:
    """Corners (n, 8) of the smallest rectangles around hulls (n, 9, 2)."""
    sides = hulls.roll(-1, 1) - hulls
    angle = torch.remainder(torch.atan2(sides[..., 1], sides[..., 0]), math.pi / 2)
    axes = torch.stack([angle.cos(), angle.sin(), -angle.sin(), angle.cos()], -1).view(-1, _POINTS, 2, 2)
    # (sets, directions, axes, points)
    along = axes @ hulls.transpose(1, 2)[:, None]
    low, high = along.amin(3), along.amax(3)
    best = (high - low).prod(2).argmin(1)
    each = torch.arange(len(hulls), device=hulls.device)
    axes, low, high = axes[each, best], low[each, best], high[each, best]
    x = torch.stack([high[:, 0], low[:, 0], low[:, 0], high[:, 0]], 1)
    y = torch.stack([low[:, 1], low[:, 1], high[:, 1], high[:, 1]], 1)
    return (torch.stack([x, y], 2) @ axes).flatten(1)


def _points(values: Tensor) -> Tensor:
    """Points in double precision, as the compiled operators compute in."""
    return values.detach().double().view(len(values), -1, 2)


def _intersection_and_union(hulls: Tensor, quadrilaterals: Tensor) -> tuple[Tensor, Tensor]:
    intersection = polygon_areas(clip_polygons(quadrilaterals, hulls)).abs()
    return intersection, polygon_areas(hulls) + polygon_areas(quadrilaterals).abs() - intersection
