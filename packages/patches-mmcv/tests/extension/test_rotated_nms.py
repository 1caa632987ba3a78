"""Suppression of rotated boxes, quadrilaterals and 3D boxes equals the compiled operators and the greedy rule."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")


def random_rotated_boxes(count: int) -> torch.Tensor:
    place = torch.rand(count, 2) * 60
    return torch.cat([place, torch.rand(count, 2) * 20 + 5, (torch.rand(count, 1) - 0.5) * 2 * math.pi], 1)


def random_quadrilaterals(count: int) -> torch.Tensor:
    x, y, width, height, angle = random_rotated_boxes(count).unbind(1)
    along = torch.stack([width * angle.cos(), width * angle.sin()], 1)
    across = torch.stack([-height * angle.sin(), height * angle.cos()], 1)
    corner = torch.stack([x, y], 1)
    return torch.cat([corner, corner + along, corner + along + across, corner + across], 1)


def greedy(overlaps: torch.Tensor, suppresses) -> list[int]:
    kept: list[int] = []
    for position in range(len(overlaps)):
        if not any(suppresses(overlaps[other, position], other, position) for other in kept):
            kept.append(position)
    return kept


def sort(boxes: torch.Tensor, scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    order = scores.sort(0, descending=True)[1]
    return order, boxes[order]


@pytest.mark.parametrize("threshold", [0.05, 0.3, 0.8])
@pytest.mark.parametrize("count", [1, 2, 256, 400])
def test_nms_rotated_keeps_what_the_compiled_one_keeps(extension, compiled, count, threshold) -> None:
    boxes, scores = random_rotated_boxes(count), torch.rand(count)
    arguments = (boxes, scores, *sort(boxes, scores), torch.empty(0, dtype=torch.int), threshold, 0)
    ours, theirs = extension.nms_rotated(*arguments), compiled.nms_rotated(*arguments)
    assert ours.dtype == theirs.dtype
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("threshold", [0.05, 0.3, 0.8])
@pytest.mark.parametrize("count", [1, 2, 256, 400])
def test_nms_quadri_keeps_what_the_compiled_one_keeps(extension, compiled, count, threshold) -> None:
    boxes, scores = random_quadrilaterals(count), torch.rand(count)
    arguments = (boxes, scores, *sort(boxes, scores), threshold, 0)
    assert torch.equal(extension.nms_quadri(*arguments), compiled.nms_quadri(*arguments))


@pytest.mark.parametrize("where", ["labels", "column"])
def test_labels_change_nothing_in_nms_rotated_as_in_the_compiled_one(extension, compiled, where) -> None:
    boxes, scores, labels = random_rotated_boxes(150), torch.rand(150), torch.randint(0, 3, (150,))
    with_labels = torch.cat([boxes, labels[:, None]], 1)
    passed = labels if where == "labels" else torch.empty(0, dtype=torch.int)
    arguments = (with_labels, scores, *sort(with_labels, scores), passed, 0.2, 1)
    kept = extension.nms_rotated(*arguments)
    assert torch.equal(kept, compiled.nms_rotated(*arguments))
    none = torch.empty(0, dtype=torch.int)
    assert torch.equal(kept, extension.nms_rotated(boxes, scores, *sort(boxes, scores), none, 0.2, 0))


def test_labels_change_nothing_in_nms_quadri_as_in_the_compiled_one(extension, compiled) -> None:
    boxes, scores, labels = random_quadrilaterals(150), torch.rand(150), torch.randint(0, 3, (150,))
    with_labels = torch.cat([boxes, labels[:, None]], 1)
    arguments = (with_labels, scores, *sort(with_labels, scores), 0.2, 1)
    kept = extension.nms_quadri(*arguments)
    assert torch.equal(kept, compiled.nms_quadri(*arguments))
    assert torch.equal(kept, extension.nms_quadri(boxes, scores, *sort(boxes, scores), 0.2, 0))


def test_without_an_order_the_scores_are_sorted(extension) -> None:
    boxes, scores = random_rotated_boxes(100), torch.rand(100)
    none = torch.empty(0, dtype=torch.int)
    expected = extension.nms_rotated(boxes, scores, *sort(boxes, scores), none, 0.3, 0)
    assert torch.equal(extension.nms_rotated(boxes, scores, none.long(), boxes, none, 0.3, 0), expected)


@pytest.mark.parametrize("normal", [True, False])
@pytest.mark.parametrize("old", [True, False])
def test_3d_suppression_is_greedy_over_overlaps_from_above(extension, normal, old) -> None:
    rotated = random_rotated_boxes(120)
    ground = rotated.clone()
    if normal:
        ground[:, 4] = 0
    overlaps = torch.zeros(120 * 120)
    extension.box_iou_rotated(ground, ground, overlaps, 0, False)
    expected = greedy(overlaps.view(120, 120), lambda overlap, *_: overlap > 0.25)
    centre, size, angle = rotated.split([2, 2, 1], 1)
    if old:
        boxes = torch.cat([centre - size / 2, centre + size / 2, angle], 1)
        name = "iou3d_nms_normal_forward" if normal else "iou3d_nms_forward"
    else:
        boxes = torch.cat([centre, torch.rand(120, 1), size, torch.rand(120, 1), angle], 1)
        name = "iou3d_nms3d_normal_forward" if normal else "iou3d_nms3d_forward"
    keep, count = torch.full((120,), -1), torch.zeros((), dtype=torch.long)
    getattr(extension, name)(boxes, keep, count, nms_overlap_thresh=0.25)
    assert keep[:count].tolist() == expected
    assert (keep[count:] == -1).all()
