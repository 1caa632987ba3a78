"""Overlaps and suppression of 3D boxes seen from above.

Only the rectangle on the ground counts. From mmcv 1.5 on a box is x, y, z, dx, dy, dz, heading; in mmcv
1.4.0 it is x1, y1, x2, y2, heading. As in ``iou3d_cuda_kernel.cuh`` of mmcv 2.1.0 and 1.4.0, a corner a
little outside the other box counts as inside.
"""

from __future__ import annotations

from typing import Callable

import torch
from torch import Tensor

from .chunking import row_ranges
from .precision import to_accumulation_dtype
from .quadrilaterals import Quadrilaterals, compare_pairs, intersection_areas
from .suppression import greedy_keep

__all__ = [
    "iou3d_boxes_iou_bev_forward",
    "iou3d_boxes_overlap_bev_forward",
    "iou3d_nms3d_forward",
    "iou3d_nms3d_normal_forward",
    "iou3d_nms_forward",
    "iou3d_nms_normal_forward",
]

#: How far outside a corner still counts as inside, in the unit of the boxes.
_MARGIN, _MARGIN_1_4 = 1e-2, 1e-5
#: The smallest union that an overlap is divided by.
_SMALLEST_UNION = 1e-8
#: Pairs that are compared at once.
PAIRS = 1 << 18


def iou3d_boxes_overlap_bev_forward(boxes_a: Tensor, boxes_b: Tensor, ans_iou: Tensor) -> None:
    """Write the areas common to ``boxes_a`` (n, 7) and ``boxes_b`` (m, 7) to ``ans_iou`` (n, m)."""
    first, second = _rectangles(boxes_a), _rectangles(boxes_b)
    _write_pairs(first, second, ans_iou, lambda one, other: intersection_areas(one, other, _MARGIN), _MARGIN)


def iou3d_boxes_iou_bev_forward(boxes_a: Tensor, boxes_b: Tensor, ans_iou: Tensor) -> None:
    """Write the overlaps of ``boxes_a`` (n, 5) and ``boxes_b`` (m, 5) to ``ans_iou`` (n, m)."""
    first, second = _rectangles_1_4(boxes_a), _rectangles_1_4(boxes_b)
    _write_pairs(first, second, ans_iou, lambda one, other: _iou(one, other, _MARGIN_1_4), _MARGIN_1_4)


def iou3d_nms3d_forward(boxes: Tensor, keep: Tensor, num_out: Tensor, nms_overlap_thresh: float) -> None:
    """Suppress overlaps above the threshold among ``boxes`` (n, 7), sorted by falling score.

    The k positions that are kept are written to the first elements of ``keep``, int64 (n,), and k to
    ``num_out``.
    """
    _suppress(_rectangles(boxes), _MARGIN, keep, num_out, nms_overlap_thresh)


def iou3d_nms3d_normal_forward(
    boxes: Tensor, keep: Tensor, num_out: Tensor, nms_overlap_thresh: float
) -> None:
    """As :func:`iou3d_nms3d_forward`, of the boxes without their heading."""
    boxes = torch.cat([boxes[:, :6], torch.zeros_like(boxes[:, :1])], 1)
    _suppress(_rectangles(boxes), 0.0, keep, num_out, nms_overlap_thresh)


def iou3d_nms_forward(boxes: Tensor, keep: Tensor, num_out: Tensor, nms_overlap_thresh: float) -> None:
    """As :func:`iou3d_nms3d_forward`, of ``boxes`` (n, 5)."""
    _suppress(_rectangles_1_4(boxes), _MARGIN_1_4, keep, num_out, nms_overlap_thresh)


def iou3d_nms_normal_forward(boxes: Tensor, keep: Tensor, num_out: Tensor, nms_overlap_thresh: float) -> None:
    """As :func:`iou3d_nms_forward`, of the boxes without their heading."""
    boxes = torch.cat([boxes[:, :4], torch.zeros_like(boxes[:, :1])], 1)
    _suppress(_rectangles_1_4(boxes), 0.0, keep, num_out, nms_overlap_thresh)


def _rectangles(boxes: Tensor) -> Quadrilaterals:
    boxes = to_accumulation_dtype(boxes)
    return Quadrilaterals.from_rotated_boxes(boxes[:, [0, 1, 3, 4, 6]])


def _rectangles_1_4(boxes: Tensor) -> Quadrilaterals:
    boxes = to_accumulation_dtype(boxes)
    low, high = boxes[:, :2], boxes[:, 2:4]
    return Quadrilaterals.from_rotated_boxes(torch.cat([(low + high) / 2, high - low, boxes[:, 4:]], 1))


def _iou(first: Quadrilaterals, second: Quadrilaterals, margin: float) -> Tensor:
    intersection = intersection_areas(first, second, margin)
    return intersection / (first.areas + second.areas - intersection).clamp(min=_SMALLEST_UNION)


def _write_pairs(
    first: Quadrilaterals,
    second: Quadrilaterals,
    output: Tensor,
    compare: Callable[[Quadrilaterals, Quadrilaterals], Tensor],
    margin: float,
) -> None:
    for start, stop in row_ranges(*output.shape, PAIRS):
        rows = first.select(torch.arange(start, stop, device=output.device))
        output[start:stop] = compare_pairs(rows, second, compare, margin).to(output.dtype)


def _suppress(boxes: Quadrilaterals, margin: float, keep: Tensor, num_out: Tensor, threshold: float) -> None:
    def overlaps(first: Tensor, second: Tensor) -> Tensor:
        iou = compare_pairs(
            boxes.select(first), boxes.select(second), lambda one, other: _iou(one, other, margin), margin
        )
        return iou > threshold

    kept = greedy_keep(len(boxes.areas), overlaps, boxes.areas.device, PAIRS)
    keep[: len(kept)] = kept.to(keep.device)
    num_out.fill_(len(kept))
