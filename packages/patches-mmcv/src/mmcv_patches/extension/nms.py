"""Non-maximum suppression of axis-aligned boxes: greedy, soft, and with the suppressed boxes listed.

Soft suppression: Bodla et al., "Soft-NMS", ICCV 2017. Comparisons and their order are those of mmcv 2.1.0,
``csrc/pytorch/cpu/nms.cpp``: ``nms`` suppresses an IoU above the threshold, the two others from the
threshold on. Equal scores are ordered by the same unstable sort. Boxes are (x1, y1, x2, y2); ``offset`` is
1 where x2 and y2 belong to the box, 0 otherwise.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from .precision import to_accumulation_dtype
from .suppression import greedy_keep

__all__ = ["nms", "nms_match", "softnms"]

_HARD, _LINEAR, _GAUSSIAN = range(3)
#: The row of the score, after x1, y1, x2, y2 and the area.
_SCORE = 5


def nms(boxes: Tensor, scores: Tensor, iou_threshold: float, offset: int) -> Tensor:
    """Indices, int64, of the boxes (n, 4) that are kept, by falling score (n,). No box gives int64 (0,)."""
    order = scores.sort(0, descending=True)[1]
    sides = _sides_and_area(to_accumulation_dtype(boxes)[order], offset)

    def overlaps(first: Tensor, second: Tensor) -> Tensor:
        return _iou(sides[:, first], sides[:, second], offset) > iou_threshold

    return order[greedy_keep(len(order), overlaps, boxes.device)]


def nms_match(dets: Tensor, iou_threshold: float) -> list[list[int]]:
    """For every kept box of ``dets`` (n, 5: box and score), its index, then those it suppressed.

    Both are ordered by falling score.
    """
    order = dets[:, 4].sort(0, descending=True)[1]
    sides = _sides_and_area(to_accumulation_dtype(dets[:, :4])[order], 0)

    def overlaps(first: Tensor, second: Tensor) -> Tensor:
        return _iou(sides[:, first], sides[:, second], 0) >= iou_threshold

    keepers = torch.arange(len(order), device=dets.device)
    greedy_keep(len(order), overlaps, dets.device, suppressor=keepers)
    groups: dict[int, list[int]] = {}
    for keeper, box in zip(keepers.tolist(), order.tolist()):
        groups.setdefault(keeper, []).append(box)
    return list(groups.values())


def softnms(
    boxes: Tensor,
    scores: Tensor,
    dets: Tensor,
    iou_threshold: float,
    sigma: float,
    min_score: float,
    method: int,
    offset: int,
) -> Tensor:
    """Pick the best box again and again, lowering the score of what overlaps it.

    The factor is 0 (``method`` 0), ``1 - iou`` (1), both from ``iou_threshold`` on, or ``exp(-iou^2 /
    sigma)`` (2). A box whose score falls below ``min_score`` is dropped. ``boxes`` is (n, 4), ``scores``
    (n,); the k picked boxes and their lowered scores are written to the first rows of ``dets`` (n, 5).
    Returns their indices, int64 (k,).
    """
    if boxes.numel() == 0:
        return boxes.new_empty(0, dtype=torch.int64)
    sides = _sides_and_area(to_accumulation_dtype(boxes), offset)
    # One box after another, each a step of small work, for which numpy takes a fraction of torch's time.
    items = torch.cat([sides, scores[None].to(sides.dtype)]).cpu().numpy()
    index = np.arange(len(boxes))
    picked, left = 0, len(boxes)
    with np.errstate(all="ignore"):
        while picked < left:
            # The best one changes places with the first: on equal scores, the order of the rest decides.
            best = picked + int(items[_SCORE, picked:left].argmax())
            if best != picked:
                places, swapped = [picked, best], [best, picked]
                items[:, places], index[places] = items[:, swapped], index[swapped]
            chosen, rest = items[:, picked], items[:, picked + 1 : left]
            rest[_SCORE] *= _soft_factor(_soft_iou(chosen, rest, offset), iou_threshold, sigma, method)
            dropped = rest[_SCORE] < min_score
            picked += 1
            if dropped.any():
                stay = _drop(dropped)
                after = slice(picked, picked + len(stay))
                items[:, after], index[after] = rest[:, stay], index[picked:left][stay]
                left = after.stop
    found = torch.from_numpy(items[:, :picked])
    dets[:picked, :4], dets[:picked, 4] = found[:4].t(), found[_SCORE]
    return torch.from_numpy(index[:picked]).to(boxes.device)


def _soft_iou(chosen: np.ndarray, rest: np.ndarray, offset: int) -> np.ndarray:
    """(6,) and (6, n), sides, area and score, to (n,)."""
    width = np.minimum(chosen[2], rest[2]) - np.maximum(chosen[0], rest[0]) + offset
    height = np.minimum(chosen[3], rest[3]) - np.maximum(chosen[1], rest[1]) + offset
    intersection = np.maximum(width, 0) * np.maximum(height, 0)
    return intersection / (chosen[4] + rest[4] - intersection)


def _soft_factor(iou: np.ndarray, iou_threshold: float, sigma: float, method: int) -> np.ndarray:
    if method == _GAUSSIAN:
        return np.exp(-(iou * iou) / sigma)
    return np.where(iou >= iou_threshold, 1 - iou if method == _LINEAR else iou * 0, iou.dtype.type(1))


def _drop(dropped: np.ndarray) -> np.ndarray:
    """The positions that stay, each hole among the first of them filled with the last one that stays."""
    left = len(dropped) - int(dropped.sum())
    order = np.arange(len(dropped))
    order[:left][dropped[:left]] = order[left:][~dropped[left:]][::-1]
    return order[:left]


def _sides_and_area(boxes: Tensor, offset: int) -> Tensor:
    """(n, 4) boxes to (5, n): x1, y1, x2, y2, area."""
    x1, y1, x2, y2 = boxes.unbind(1)
    return torch.stack([x1, y1, x2, y2, (x2 - x1 + offset) * (y2 - y1 + offset)])


def _iou(first: Tensor, second: Tensor, offset: int) -> Tensor:
    """(5, A) and (5, B) to (A, B)."""
    first = first[:, :, None]
    width = _overlap(first[0], first[2], second[0], second[2], offset)
    height = _overlap(first[1], first[3], second[1], second[3], offset)
    intersection = width.mul_(height)
    union = (first[4] + second[4]).sub_(intersection)
    return intersection.div_(union)


def _overlap(low: Tensor, high: Tensor, other_low: Tensor, other_high: Tensor, offset: int) -> Tensor:
    length = torch.minimum(high, other_high).sub_(torch.maximum(low, other_low))
    if offset:
        length += offset
    return length.clamp_(min=0)
