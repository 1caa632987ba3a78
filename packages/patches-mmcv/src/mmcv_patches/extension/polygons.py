"""Convex hulls, half-plane clipping and areas of many small polygons at once.

A polygon is (..., vertices, 2), x and y; one with fewer vertices than there is room repeats a vertex, which
changes neither its outline nor its area.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["clip_polygons", "convex_hulls", "cross", "polygon_areas", "sort_by_angle"]


def cross(first: Tensor, second: Tensor) -> Tensor:
    """The z component of the cross product of vectors (..., 2)."""
    return first[..., 0] * second[..., 1] - first[..., 1] * second[..., 0]


def polygon_areas(polygons: Tensor) -> Tensor:
    """Signed areas, positive where the vertices run counterclockwise (x to the right, y up)."""
    # Around the first vertex: far from the origin, products of coordinates would lose the digits that count.
    around = polygons - polygons[..., :1, :]
    return cross(around, around.roll(-1, -2)).sum(-1) / 2


def sort_by_angle(points: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
    """Point sets (sets, n, 2) in the order of the angles around their means, and which of them count.

    Those that are not ``valid`` (sets, n) come last and repeat the last one that is.
    """
    with torch.no_grad():
        weight = valid.to(points.dtype)[..., None]
        mean = (points * weight).sum(1, keepdim=True) / weight.sum(1, keepdim=True).clamp(min=1)
        around = points - mean
        angle = torch.atan2(around[..., 1], around[..., 0]).masked_fill(~valid, float("inf"))
        order = angle.argsort(1)
        valid = valid.gather(1, order)
        order = order.gather(1, _last_marked(valid))
    return _take(points, order), valid


def convex_hulls(points: Tensor, valid: Tensor | None = None) -> Tensor:
    """Convex hulls, counterclockwise, of point sets (sets, n, 2).

    Those points count that are ``valid`` (sets, n), by default all. They are sorted by their angle around
    their mean, which lies within the hull. A point where the outline turns to the right lies in the
    triangle of its neighbours and the mean, and so is no corner; it is replaced by the corner before it,
    until there is none left. The result is (sets, n, 2).
    """
    if valid is None:
        valid = torch.ones_like(points[..., 0], dtype=torch.bool)
    points, corner = sort_by_angle(points, valid)
    with torch.no_grad():
        while True:
            before, after = _neighbours(corner)
            turn = cross(points - _take(points, before), _take(points, after) - points)
            reflex = corner & (turn < 0)
            # Of two neighbours only one at a time: rounding could make either of two equal points
            # superfluous.
            superfluous = reflex & ~reflex.gather(1, before)
            if not superfluous.any():
                break
            corner &= ~superfluous
    return _take(points, _last_marked(corner))


def _take(points: Tensor, index: Tensor) -> Tensor:
    return points.gather(1, index[..., None].expand(-1, -1, 2))


def _neighbours(corner: Tensor) -> tuple[Tensor, Tensor]:
    """Positions of the corners before and after each position (sets, n), around the end."""
    count = corner.shape[1]
    before = (_last_marked(corner.roll(1, 1)) - 1) % count
    after = (count - _last_marked(corner.flip(1).roll(1, 1))) % count
    return before, after.flip(1)


def _last_marked(marked: Tensor) -> Tensor:
    """The last position that is marked up to each position (sets, n); before the first, the very last one."""
    position = torch.arange(marked.shape[1], device=marked.device).expand_as(marked)
    last = torch.where(marked, position, -torch.ones_like(position)).cummax(1).values
    return torch.where(last < 0, last[:, -1:].clamp(min=0), last)


def clip_polygons(polygons: Tensor, hulls: Tensor) -> Tensor:
    """What of ``polygons`` (n, k, 2) lies within the convex ``hulls`` (n, m, 2), which run counterclockwise.

    Sutherland and Hodgman, "Reentrant Polygon Clipping", 1974: the polygon is cut along the line of every
    side of the hull. The polygon need not be convex; then parts of it may stay connected by sides of no
    width.
    """
    for start, end in zip(hulls.unbind(1), hulls.roll(-1, 1).unbind(1)):
        polygons = _cut(polygons, start, end)
    return polygons


def _cut(polygons: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """What lies to the left of lines from ``start`` to ``end`` (n, 2); one of no length cuts nothing."""
    following = polygons.roll(-1, 1)
    distance = cross((end - start)[:, None], polygons - start[:, None])
    distance_following = distance.roll(-1, 1)
    inside, inside_following = distance >= 0, distance_following >= 0
    crossing = inside != inside_following
    step = torch.where(crossing, distance - distance_following, torch.ones_like(distance))
    crossed = polygons + (following - polygons) * (distance / step)[..., None]

    # Each vertex leaves itself, if inside, and then the crossing of the side that follows.
    kept = torch.stack([inside, crossing], 2).flatten(1)
    vertices = torch.stack([polygons, crossed], 2).flatten(1, 2)
    room = max(int(kept.sum(1).max()), 1) if len(kept) else 1
    place = torch.where(kept, kept.long().cumsum(1) - 1, room)
    cut = vertices.new_zeros(len(vertices), room + 1, 2).scatter(
        1, place[..., None].expand(-1, -1, 2), vertices
    )
    last = (kept.sum(1, keepdim=True) - 1).clamp(min=0)
    fill = torch.arange(room, device=cut.device).clamp(max=last)
    return _take(cut, fill)
