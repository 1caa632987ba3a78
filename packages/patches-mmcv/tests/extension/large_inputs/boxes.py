"""Many boxes: of those that are compared in pairs, the second set is small, for the pairs are an output.

Boxes that suppress one another lie in some hundred heaps, as those of a detector do around objects.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .sizes import Size

#: Boxes of the other set, and heaps.
OTHERS, HEAPS = 20, 300


def centres(count: int) -> Tensor:
    """(count, 2), in heaps."""
    heaps = torch.rand(HEAPS, 2) * 5000
    return heaps[torch.randint(0, HEAPS, (count,))] + torch.randn(count, 2) * 2


def corners(count: int) -> Tensor:
    """x1, y1, x2, y2, (count, 4)."""
    middle, half = centres(count), torch.rand(count, 2) * 4 + 30
    return torch.cat([middle - half, middle + half], 1)


def rotated(count: int) -> Tensor:
    """x, y, width, height, angle, (count, 5)."""
    return torch.cat([centres(count), torch.rand(count, 2) * 8 + 60, torch.randn(count, 1) / 9], 1)


def quadrilaterals(count: int) -> Tensor:
    """x and y of four vertices, (count, 8)."""
    square = torch.tensor([[-30.0, -30.0], [30.0, -30.0], [30.0, 30.0], [-30.0, 30.0]])
    return (centres(count)[:, None] + square + torch.rand(count, 4, 2) * 8).flatten(1)


def solid(count: int) -> Tensor:
    """x, y, z, three sizes, heading, (count, 7)."""
    flat = rotated(count)
    return torch.cat([flat[:, :2], torch.rand(count, 1), flat[:, 2:4], torch.ones(count, 1), flat[:, 4:]], 1)


def of_mmcv_1_4(count: int) -> Tensor:
    """x1, y1, x2, y2, heading, (count, 5)."""
    return torch.cat([corners(count), torch.randn(count, 1) / 9], 1)


def pairs(size: Size, boxes: Any) -> tuple[Any, ...]:
    return boxes(size.count), boxes(OTHERS), torch.zeros(size.count, OTHERS)


def flat_pairs(size: Size, boxes: Any) -> tuple[Any, ...]:
    first, second, output = pairs(size, boxes)
    return first, second, output.view(-1), 0, False


def suppressed(size: Size, boxes: Any, *after: Any) -> tuple[Any, ...]:
    dets, scores = boxes(size.count), torch.rand(size.count)
    order = scores.argsort(descending=True)
    return (dets, scores, order, dets[order], *after)


def sorted_boxes(size: Size, boxes: Any) -> tuple[Any, ...]:
    return (
        boxes(size.count),
        torch.zeros(size.count, dtype=torch.int64),
        torch.zeros(1, dtype=torch.int64),
        0.5,
    )


def nine_points(count: int) -> Tensor:
    return (centres(count)[:, None] + torch.rand(count, 9, 2) * 60).flatten(1)


def shared_corners(size: Size) -> tuple[Any, ...]:
    valid = torch.rand(1, size.count, 24) < 0.3
    return torch.randn(1, size.count, 24, 2), valid, valid.sum(2).int()


NO_LABELS = torch.zeros(0, dtype=torch.int32)

BOXES = {
    "bbox_overlaps": lambda size: (*pairs(size, corners), 0, False, 0),
    "box_iou_quadri": lambda size: flat_pairs(size, quadrilaterals),
    "box_iou_rotated": lambda size: flat_pairs(size, rotated),
    "convex_giou": lambda size: (
        nine_points(size.count), quadrilaterals(size.count), torch.zeros(size.count, 19),
    ),
    "convex_iou": lambda size: (nine_points(size.count), quadrilaterals(4), torch.zeros(size.count, 4)),
    "diff_iou_rotated_sort_vertices_forward": shared_corners,
    "iou3d_boxes_iou_bev_forward": lambda size: pairs(size, of_mmcv_1_4),
    "iou3d_boxes_overlap_bev_forward": lambda size: pairs(size, solid),
    "iou3d_nms3d_forward": lambda size: sorted_boxes(size, solid),
    "iou3d_nms3d_normal_forward": lambda size: sorted_boxes(size, solid),
    "iou3d_nms_forward": lambda size: sorted_boxes(size, of_mmcv_1_4),
    "iou3d_nms_normal_forward": lambda size: sorted_boxes(size, of_mmcv_1_4),
    "min_area_polygons": lambda size: (nine_points(size.count), torch.zeros(size.count, 8)),
    "nms": lambda size: (corners(size.count), torch.rand(size.count), 0.5, 0),
    "nms_match": lambda size: (torch.cat([corners(size.count), torch.rand(size.count, 1)], 1), 0.5),
    "nms_quadri": lambda size: suppressed(size, quadrilaterals, 0.3, 0),
    "nms_rotated": lambda size: suppressed(size, rotated, NO_LABELS, 0.3, 0),
    "points_in_polygons_forward": lambda size: (
        centres(size.count), quadrilaterals(OTHERS), torch.zeros(size.count, OTHERS),
    ),
    "softnms": lambda size: (
        corners(size.count), torch.rand(size.count), torch.zeros(size.count, 5), 0.3, 0.5, 0.3, 1, 0,
    ),
}  # fmt: skip
