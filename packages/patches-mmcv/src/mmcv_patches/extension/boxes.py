"""Overlaps of axis-aligned boxes, and points in quadrilaterals."""

from __future__ import annotations

import torch
from torch import Tensor

from .chunking import row_ranges
from .precision import to_accumulation_dtype

__all__ = ["bbox_overlaps", "points_in_polygons_forward"]

_OVER_UNION = 0
#: Pairs that one chunk of boxes or points may have.
PAIRS = 1 << 20


def bbox_overlaps(
    bboxes1: Tensor, bboxes2: Tensor, ious: Tensor, mode: int, aligned: bool, offset: int
) -> None:
    """Write the intersection over the union (``mode`` 0), or over the first box (1), to ``ious``.

    ``bboxes1`` is (n, 4), ``bboxes2`` (m, 4): x1, y1, x2, y2; ``offset`` is 1 where x2 and y2 belong to the
    box. ``ious`` is (n, m), or (n,) where the boxes are ``aligned`` in pairs.
    """
    second = to_accumulation_dtype(bboxes2)
    for start, stop in row_ranges(len(bboxes1), 1 if aligned else len(bboxes2), PAIRS):
        first = to_accumulation_dtype(bboxes1[start:stop])
        if aligned:
            overlaps = _overlaps(first, second[start:stop], mode, offset)
        else:
            overlaps = _overlaps(first[:, None], second, mode, offset)
        ious[start:stop] = overlaps.to(ious.dtype)


def _overlaps(first: Tensor, second: Tensor, mode: int, offset: int) -> Tensor:
    low, high = torch.maximum(first[..., :2], second[..., :2]), torch.minimum(first[..., 2:], second[..., 2:])
    intersection = (high - low + offset).clamp(min=0).prod(-1)
    area = (first[..., 2:] - first[..., :2] + offset).prod(-1)
    if mode == _OVER_UNION:
        area = area + (second[..., 2:] - second[..., :2] + offset).prod(-1) - intersection
    return intersection / area


def points_in_polygons_forward(points: Tensor, polygons: Tensor, output: Tensor) -> None:
    """Write 1 to ``output`` (points, polygons) where the point lies in the quadrilateral, else 0.

    ``points`` is (points, 2), ``polygons`` (polygons, 8): x and y of four vertices.

    A ray to the right crosses the sides an odd number of times. A point on a vertex or a side ends the
    count, after the sides before it, as in ``points_in_polygons_cuda_kernel.cuh`` of mmcv 2.1.0, where the
    sides are those to vertex 0 (from 3), 1, 2, 3; as there, all is computed in float32.
    """
    corners = polygons.view(-1, 4, 2).float()
    for start, stop in row_ranges(len(points), 4 * len(polygons), PAIRS):
        x, y = points[start:stop, :, None].float().unbind(1)
        crossings = torch.zeros(stop - start, len(polygons), dtype=torch.int32, device=points.device)
        counting = torch.ones_like(crossings, dtype=torch.bool)
        for side in range(4):
            (x1, y1), (x2, y2) = corners[:, side].unbind(1), corners[:, side - 1].unbind(1)
            beside = (y >= torch.minimum(y1, y2)) & (y <= torch.maximum(y1, y2))
            on_vertex = ((x1 == x) & (y1 == y)) | ((x2 == x) & (y2 == y))
            straddles = (y1 < y) != (y2 < y)
            crossed = x1 + (y - y1) * (x2 - x1) / torch.where(straddles, y2 - y1, torch.ones_like(y1))
            counting &= ~(beside & (on_vertex | (straddles & (crossed == x))))
            crossings += counting & beside & straddles & (crossed > x)
        output[start:stop] = (crossings % 2).to(output.dtype)
