"""Which points lie in which rotated 3D boxes.

A box is ``(x, y, z, x_size, y_size, z_size, yaw)`` with (x, y, z) the centre of its bottom face and yaw about
the z axis in radians. A point is inside if, in the frame of the box, it is strictly within the side faces and
not beyond the top or bottom one. Half precision is computed in float32. Facts about behaviour: mmcv 2.1.0,
``ops/csrc/pytorch/cpu/points_in_boxes.cpp`` and ``ops/csrc/common/cuda/points_in_boxes_cuda_kernel.cuh``.
"""

from __future__ import annotations

import math
from typing import Iterator, NamedTuple

import torch
from torch import Tensor

from .chunking import row_ranges
from .scattering import scatter_extreme_
from .selection import repeated

__all__ = [
    "points_in_boxes_all_forward",
    "points_in_boxes_cpu_forward",
    "points_in_boxes_part_forward",
]

#: Temporaries per pair of a box and a point, in elements.
_ELEMENTS_PER_PAIR = 16
#: By how much more than computed a box may reach along x: far more than rounding adds.
_MARGIN = 1e-3


class BoxMembers(NamedTuple):
    """The points in each of some boxes: K pairs, by box, then in the order of the points."""

    start: int
    stop: int
    #: (K,) int64, counted from ``start``.
    boxes: Tensor
    #: (K,) int64.
    points: Tensor
    #: (K,), the position along the length and the width of the box, from its centre.
    local_x: Tensor
    local_y: Tensor


def points_in_boxes_part_forward(
    boxes_tensor: Tensor, pts_tensor: Tensor, box_idx_of_points_tensor: Tensor
) -> None:
    """Write, for each point, the first box that it is in; a point in none keeps its value.

    Args:
        boxes_tensor: (B, T, 7).
        pts_tensor: (B, N, 3).
        box_idx_of_points_tensor: output, (B, N) int32.
    """
    for boxes, points, box_of_point in zip(boxes_tensor, pts_tensor, box_idx_of_points_tensor):
        none = boxes.shape[0]
        first = torch.full(points.shape[:1], none, dtype=torch.int64, device=points.device)
        for members in box_members(boxes, points):
            numbers = (members.start + members.boxes).unsqueeze(1)
            scatter_extreme_(first.unsqueeze(1), members.points, numbers, "amin")
        found = first < none
        box_of_point[found] = first[found].to(box_of_point.dtype)


def points_in_boxes_all_forward(
    boxes_tensor: Tensor, pts_tensor: Tensor, box_idx_of_points_tensor: Tensor
) -> None:
    """Write 1 for each pair of a point and a box that it is in; other places keep their values.

    Args:
        boxes_tensor: (B, T, 7).
        pts_tensor: (B, N, 3).
        box_idx_of_points_tensor: output, (B, N, T) int32.
    """
    for boxes, points, membership in zip(boxes_tensor, pts_tensor, box_idx_of_points_tensor):
        for members in box_members(boxes, points):
            membership[members.points, members.start + members.boxes] = 1


def points_in_boxes_cpu_forward(boxes_tensor: Tensor, pts_tensor: Tensor, pts_indices_tensor: Tensor) -> None:
    """Write 1 for each pair of a box and a point in it, else 0.

    Args:
        boxes_tensor: (T, 7).
        pts_tensor: (N, 3).
        pts_indices_tensor: output, (T, N) int32.
    """
    pts_indices_tensor.zero_()
    for members in box_members(boxes_tensor, pts_tensor):
        pts_indices_tensor[members.start + members.boxes, members.points] = 1


def box_members(boxes: Tensor, points: Tensor) -> Iterator[BoxMembers]:
    """Yield the points in consecutive boxes, a few boxes at a time.

    The points are sorted along x, so that a box is compared only with those that its diagonal can reach.

    Args:
        boxes: (T, 7), floating.
        points: (N, 3), floating.
    """
    dtype = torch.float64 if points.dtype == torch.float64 else torch.float32
    boxes, points = boxes.to(dtype), points.to(dtype)
    # NaN, which is in no box, would be in the way of the search.
    along_x, order = points[:, 0].masked_fill(points[:, 0].isnan(), math.inf).sort()
    centre, reach = boxes[:, 0], torch.hypot(boxes[:, 3], boxes[:, 4]) * (0.5 + _MARGIN)
    reach = reach + centre.abs() * _MARGIN
    first = torch.searchsorted(along_x, (centre - reach).contiguous())
    counts = (torch.searchsorted(along_x, (centre + reach).contiguous(), right=True) - first).clamp_(min=0)
    largest = int(counts.max()) if len(boxes) else 0
    for start, stop in row_ranges(len(boxes), _ELEMENTS_PER_PAIR * largest):
        box, position = repeated(counts[start:stop])
        point = order[first[start:stop][box] + position]
        yield _members(start, stop, box, point, boxes[start:stop], points)


def _members(start: int, stop: int, box: Tensor, point: Tensor, boxes: Tensor, points: Tensor) -> BoxMembers:
    """Of the pairs ``box`` and ``point``, (P,) each, those of a point inside."""
    centre_x, centre_y, bottom, x_size, y_size, z_size, yaw = boxes.unbind(1)
    cosine, sine = yaw.neg().cos()[box], yaw.neg().sin()[box]
    x, y, z = points.index_select(0, point).unbind(1)
    offset_x, offset_y = x - centre_x[box], y - centre_y[box]
    local_x = offset_x * cosine + offset_y * -sine
    local_y = offset_x * sine + offset_y * cosine
    half_x, half_y, half_z = (x_size / 2)[box], (y_size / 2)[box], (z_size / 2)[box]
    inside = (z - (bottom[box] + half_z)).abs_() <= half_z
    inside &= (local_x > -half_x) & (local_x < half_x) & (local_y > -half_y) & (local_y < half_y)
    found = inside.nonzero().squeeze(1)
    found = found[(box[found] * len(points) + point[found]).argsort()]
    return BoxMembers(start, stop, box[found], point[found], local_x[found], local_y[found])
