"""Replacements for suppression among boxes in space, of ``mmcv.ops.iou3d``. Arguments and results are upstream's."""

from __future__ import annotations

from typing import Any

import mmcv._ext as extension
import torch
from torch import Tensor

__all__ = ["nms3d", "nms3d_normal", "nms_bev", "nms_normal_bev"]


def nms3d(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Indices of the boxes (N, 7) that suppression by the overlap seen from above keeps, best score first."""
    assert boxes.size(1) == 7, "Input boxes shape should be (N, 7)"
    order = scores.sort(0, descending=True)[1]
    return _suppress(extension.iou3d_nms3d_forward, boxes, order, iou_threshold)


def nms3d_normal(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """As :func:`nms3d`, of boxes without their angle."""
    assert boxes.shape[1] == 7, "Input boxes shape should be (N, 7)"
    order = scores.sort(0, descending=True)[1]
    return _suppress(extension.iou3d_nms3d_normal_forward, boxes, order, iou_threshold)


def nms_bev(
    boxes: Tensor,
    scores: Tensor,
    thresh: float,
    pre_max_size: int | None = None,
    post_max_size: int | None = None,
) -> Tensor:
    """Indices of the boxes (N, 5) that suppression by rotated overlap keeps, best score first."""
    assert boxes.size(1) == 5, "Input boxes shape should be [N, 5]"
    order = scores.sort(0, descending=True)[1][:pre_max_size]
    return _suppress(extension.iou3d_nms_forward, boxes, order, thresh)[:post_max_size]


def nms_normal_bev(boxes: Tensor, scores: Tensor, thresh: float) -> Tensor:
    """As :func:`nms_bev`, of boxes without their angle."""
    assert boxes.shape[1] == 5, "Input boxes shape should be [N, 5]"
    return _suppress(extension.iou3d_nms_normal_forward, boxes, scores.sort(0, descending=True)[1], thresh)


def _suppress(function: Any, boxes: Tensor, order: Tensor, thresh: float) -> Tensor:
    keep = torch.zeros(len(order), dtype=torch.long)
    count = torch.zeros((), dtype=torch.long)
    function(boxes[order].contiguous(), keep, count, nms_overlap_thresh=thresh)
    return order[keep[: int(count)].to(order.device)].contiguous()
