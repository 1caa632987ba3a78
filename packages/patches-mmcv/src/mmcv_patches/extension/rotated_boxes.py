"""Overlaps and suppression of rotated boxes and of quadrilaterals.

See ``quadrilaterals`` for their intersections. Boxes without area overlap nothing. As in mmcv, in single
precision a box may overlap itself too little when its angle is written in another way (turned by pi, or by
pi/2 with its sides exchanged): corners that should meet just miss one another.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .chunking import row_ranges
from .precision import to_accumulation_dtype
from .quadrilaterals import Quadrilaterals, compare_pairs, intersection_areas
from .suppression import greedy_keep

__all__ = [
    "box_iou_quadri",
    "box_iou_rotated",
    "diff_iou_rotated_sort_vertices_forward",
    "nms_quadri",
    "nms_rotated",
]

_OVER_UNION = 0
#: A box of a smaller area overlaps nothing.
_SMALLEST_AREA = 1e-14
#: Points of an intersection: eight corners of the two boxes, then the crossings of their sides; corners of
#: the intersection, the first one twice; and how close points are that count as one.
_BOX_CORNERS, _SORTED, _CLOSE = 8, 9, 1e-8
#: Pairs that are compared at once.
PAIRS = 1 << 18


def box_iou_rotated(boxes1: Tensor, boxes2: Tensor, ious: Tensor, mode_flag: int, aligned: bool) -> None:
    """Write the intersection over the union (``mode_flag`` 0), or over the first box (1), to ``ious``.

    ``boxes1`` is (n, 5), ``boxes2`` (m, 5): centre x and y, width, height, angle in radians, clockwise on a
    screen. ``ious`` has n * m elements, or n where the boxes are ``aligned`` in pairs.
    """
    _box_iou(_rotated(boxes1), _rotated(boxes2), ious, mode_flag, aligned)


def box_iou_quadri(boxes1: Tensor, boxes2: Tensor, ious: Tensor, mode_flag: int, aligned: bool) -> None:
    """As :func:`box_iou_rotated`, of quadrilaterals (n, 8) and (m, 8): x and y of four vertices."""
    _box_iou(_quadrilaterals(boxes1), _quadrilaterals(boxes2), ious, mode_flag, aligned)


def nms_rotated(
    dets: Tensor,
    scores: Tensor,
    order: Tensor,
    dets_sorted: Tensor,
    labels: Tensor,
    iou_threshold: float,
    multi_label: int,
) -> Tensor:
    """Indices, int64, of the rotated boxes that are kept, by falling score.

    ``dets_sorted`` (n, 5 or 6) are the boxes, and possibly their labels, in the ``order`` of their scores.
    Where ``order`` is empty, as mmcv passes it on an NPU, ``dets`` are sorted by ``scores`` (n,). An
    overlap from the threshold on suppresses. Boxes of all labels suppress one another, whatever ``labels`` (n,)
    and ``multi_label`` say: so do the compiled functions of mmcv 2.1.0 for the CPU (seen) and for CUDA
    (``common/cuda/nms_rotated_cuda.cuh`` reads the boxes alone). Whoever wants suppression within a label shifts
    the boxes of each label apart, as mmcv's ``batched_nms`` does.
    """
    order, boxes = _sorted(dets, scores, order, dets_sorted)
    return order[_keep(_rotated(boxes), iou_threshold)]


def nms_quadri(
    dets: Tensor, scores: Tensor, order: Tensor, dets_sorted: Tensor, iou_threshold: float, multi_label: int
) -> Tensor:
    """As :func:`nms_rotated`, for quadrilaterals (n, 8, or 9 with the label)."""
    order, boxes = _sorted(dets, scores, order, dets_sorted)
    return order[_keep(_quadrilaterals(boxes[:, :8]), iou_threshold)]


def _rotated(boxes: Tensor) -> Quadrilaterals:
    boxes = to_accumulation_dtype(boxes)
    if boxes.device.type == "npu":
        # mmcv.ops hands the operators of this device degrees (box_iou_rotated.py and nms.py of mmcv 2.1.0).
        boxes = torch.cat([boxes[:, :4], boxes[:, 4:5].deg2rad()], 1)
    return Quadrilaterals.from_rotated_boxes(boxes)


def _quadrilaterals(boxes: Tensor) -> Quadrilaterals:
    return Quadrilaterals.from_vertices(to_accumulation_dtype(boxes))


def _box_iou(
    first: Quadrilaterals, second: Quadrilaterals, ious: Tensor, mode_flag: int, aligned: bool
) -> None:
    if aligned:
        for start, stop in row_ranges(len(ious), 1, PAIRS):
            pair = torch.arange(start, stop, device=ious.device)
            ious[start:stop] = _overlaps(first.select(pair), second.select(pair), mode_flag).to(ious.dtype)
        return
    pairs = ious.view(len(first.areas), len(second.areas))
    for start, stop in row_ranges(*pairs.shape, PAIRS):
        rows = first.select(torch.arange(start, stop, device=ious.device))
        overlaps = compare_pairs(rows, second, lambda one, other: _overlaps(one, other, mode_flag))
        pairs[start:stop] = overlaps.to(ious.dtype)


def _overlaps(first: Quadrilaterals, second: Quadrilaterals, mode_flag: int) -> Tensor:
    intersection = intersection_areas(first, second)
    base = first.areas
    if mode_flag == _OVER_UNION:
        base = first.areas + second.areas - intersection
    solid = (first.areas >= _SMALLEST_AREA) & (second.areas >= _SMALLEST_AREA)
    return torch.where(solid, intersection / base, torch.zeros_like(base))


def _sorted(dets: Tensor, scores: Tensor, order: Tensor, dets_sorted: Tensor) -> tuple[Tensor, Tensor]:
    if order.numel() == 0:
        order = scores.sort(0, descending=True)[1]
        dets_sorted = dets[order]
    return order, dets_sorted


def _keep(boxes: Quadrilaterals, iou_threshold: float) -> Tensor:
    def overlaps(first: Tensor, second: Tensor) -> Tensor:
        iou = compare_pairs(
            boxes.select(first), boxes.select(second), lambda one, other: _overlaps(one, other, _OVER_UNION)
        )
        return iou >= iou_threshold

    return greedy_keep(len(boxes.areas), overlaps, boxes.areas.device, PAIRS)


def diff_iou_rotated_sort_vertices_forward(vertices: Tensor, mask: Tensor, num_valid: Tensor) -> Tensor:
    """Sort the corners of intersections of box pairs, for mmcv's differentiable IoU.

    ``vertices`` (batch, pairs, points, 2) are relative to their mean: eight corners of the two boxes, then
    crossings of their sides; ``mask`` (batch, pairs, points) tells which count, ``num_valid`` (batch,
    pairs) how many do. Returns positions, int32 (batch, pairs, 9): the corners, the first again, and then a
    point that does not count; only such where there are fewer than three. Of two boxes that are the same,
    each corner is named once (``diff_iou_rotated_cuda_kernel.cuh``, mmcv 2.1.0).
    """
    points, valid, count = vertices.flatten(0, 1), mask.flatten(0, 1), num_valid.flatten()[:, None]
    unused = (~valid[:, _BOX_CORNERS:]).int().argmax(1, keepdim=True) + _BOX_CORNERS
    order = torch.zeros(len(points), _SORTED, dtype=torch.int64, device=points.device)
    for place in range(_SORTED - 1):
        order[:, place] = _next_vertex(points, valid, order[:, place - 1] if place else None)
    place = torch.arange(_SORTED, device=points.device)
    order = torch.where(place == count, order[:, :1], order)
    order = torch.where((place > count) | (count < 3), unused, order)
    # Where both boxes are the same, the search comes to its end after four corners and names corner 0.
    same = (order[:, :4, None] == order[:, None, 4:_BOX_CORNERS]).sum((1, 2))[:, None] == 4
    same &= count == _BOX_CORNERS
    order = torch.where(same & (place == 4), order[:, :1], order)
    order = torch.where(same & (place > 4), unused, order)
    return order.int().view(*mask.shape[:2], _SORTED)


def _next_vertex(points: Tensor, valid: Tensor, previous: Tensor | None) -> Tensor:
    """The first valid point after ``previous`` by angle; 0 where there is none."""
    chosen = torch.zeros(len(points), dtype=torch.int64, device=points.device)
    best = points.new_tensor([1.0, -_CLOSE]).expand(len(points), 2)
    for position in range(points.shape[1]):
        point = points[:, position]
        better = valid[:, position] & _precedes(point, best)
        if previous is not None:
            last = points.gather(1, previous.view(-1, 1, 1).expand(-1, 1, 2))[:, 0]
            better &= _precedes(last, point)
        chosen = torch.where(better, torch.full_like(chosen, position), chosen)
        best = torch.where(better[:, None], point, best)
    return chosen


def _precedes(first: Tensor, second: Tensor) -> Tensor:
    """Whether the angle of the first points (n, 2) is smaller, from 0 upwards; never of points that are close."""
    (x1, y1), (x2, y2) = first.unbind(1), second.unbind(1)
    close = ((x1 - x2).abs() < _CLOSE) & ((y1 - y2).abs() < _CLOSE)
    # The squared cosine with the sign of x falls along the upper half and rises along the lower one.
    cosine1 = x1.abs() * x1 / (x1 * x1 + y1 * y1 + _CLOSE)
    cosine2 = x2.abs() * x2 / (x2 * x2 + y2 * y2 + _CLOSE)
    difference = cosine1 - cosine2
    upper = (y1 > 0) & (y2 > 0) & (difference > _CLOSE)
    lower = (y1 < 0) & (y2 < 0) & (difference < _CLOSE)
    return ~close & (((y1 > 0) & (y2 < 0)) | upper | lower)
