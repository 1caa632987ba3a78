"""Which points lie in which rotated 3D boxes.

A box is ``(x, y, z, x_size, y_size, z_size, yaw)`` with (x, y, z) the centre of its bottom face and yaw about
the z axis in radians. A point is inside if, in the frame of the box, it is strictly within the side faces and
not beyond the top or bottom one. Half precision is computed in float32. Facts about behaviour: mmcv 2.1.0,
``ops/csrc/pytorch/cpu/points_in_boxes.cpp`` and ``ops/csrc/common/cuda/points_in_boxes_cuda_kernel.cuh``.
"""

from __future__ import annotations

from typing import Iterator, NamedTuple

import torch
from torch import Tensor

from .chunking import row_ranges

__all__ = [
    "points_in_boxes_all_forward",
    "points_in_boxes_cpu_forward",
    "points_in_boxes_part_forward",
]

#: Temporaries per pair of a box and a point, in elements.
_ELEMENTS_PER_PAIR = 16


class BoxFrames(NamedTuple):
    """All points in the frames of some boxes."""

    start: int
    stop: int
    #: (T, N), the position along the length and the width of each box, from its centre.
    local_x: Tensor
    local_y: Tensor
    #: (T, N) bool.
    inside: Tensor


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
        for frames in box_frames(boxes, points):
            numbers = torch.arange(frames.start, frames.stop, device=points.device).unsqueeze(1)
            first = torch.minimum(first, torch.where(frames.inside, numbers, none).amin(0))
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
        for frames in box_frames(boxes, points):
            membership[:, frames.start : frames.stop].masked_fill_(frames.inside.t(), 1)


def points_in_boxes_cpu_forward(boxes_tensor: Tensor, pts_tensor: Tensor, pts_indices_tensor: Tensor) -> None:
    """Write 1 for each pair of a box and a point in it, else 0.

    Args:
        boxes_tensor: (T, 7).
        pts_tensor: (N, 3).
        pts_indices_tensor: output, (T, N) int32.
    """
    for frames in box_frames(boxes_tensor, pts_tensor):
        pts_indices_tensor[frames.start : frames.stop] = frames.inside.to(pts_indices_tensor.dtype)


def box_frames(boxes: Tensor, points: Tensor) -> Iterator[BoxFrames]:
    """Yield the frames of consecutive boxes, a few boxes at a time.

    Args:
        boxes: (T, 7), floating.
        points: (N, 3), floating.
    """
    dtype = torch.float64 if points.dtype == torch.float64 else torch.float32
    x, y, z = points.to(dtype).t().contiguous().unsqueeze(1)
    for start, stop in row_ranges(boxes.shape[0], _ELEMENTS_PER_PAIR * points.shape[0]):
        centre_x, centre_y, bottom, x_size, y_size, z_size, yaw = boxes[start:stop].to(dtype).t().unsqueeze(2)
        cosine, sine = yaw.neg().cos(), yaw.neg().sin()
        offset_x, offset_y = x - centre_x, y - centre_y
        local_x = offset_x * cosine + offset_y * -sine
        local_y = offset_x * sine + offset_y * cosine
        inside = (z - (bottom + z_size / 2)).abs_() <= z_size / 2
        inside &= (local_x > -x_size / 2) & (local_x < x_size / 2)
        inside &= (local_y > -y_size / 2) & (local_y < y_size / 2)
        yield BoxFrames(start, stop, local_x, local_y, inside)
