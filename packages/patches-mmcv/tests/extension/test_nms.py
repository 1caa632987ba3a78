"""Non-maximum suppression equals the compiled operators, and the greedy rule written as a loop."""

from __future__ import annotations

import types

import pytest

torch = pytest.importorskip("torch")

COUNTS = [0, 1, 2, 255, 256, 257, 1500]


def random_boxes(count: int, extent: float = 300) -> torch.Tensor:
    corner, size = torch.rand(count, 2) * extent, torch.rand(count, 2) * 80 + 5
    return torch.cat([corner, corner + size], 1)


def random_scores(count: int, ties: bool) -> torch.Tensor:
    return torch.randint(0, 20, (count,)) / 20 if ties else torch.randperm(count) / max(count, 1)


def whole_number_boxes(count: int) -> torch.Tensor:
    """Boxes whose overlaps are exactly at simple thresholds again and again."""
    corner = torch.randint(0, 6, (count, 2))
    return torch.cat([corner, corner + torch.randint(1, 5, (count, 2))], 1).float()


def greedy_loop(boxes: torch.Tensor, scores: torch.Tensor, threshold: float, offset: int) -> list[int]:
    """The rule itself, in float64, one pair at a time."""
    kept: list[int] = []
    for index in scores.sort(0, descending=True)[1].tolist():
        x1, y1, x2, y2 = boxes[index].tolist()
        for other in kept:
            a1, b1, a2, b2 = boxes[other].tolist()
            both = max(0, min(x2, a2) - max(x1, a1) + offset) * max(0, min(y2, b2) - max(y1, b1) + offset)
            area = (x2 - x1 + offset) * (y2 - y1 + offset) + (a2 - a1 + offset) * (b2 - b1 + offset)
            if both / (area - both) > threshold:
                break
        else:
            kept.append(index)
    return kept


@pytest.mark.parametrize("offset", [0, 1])
def test_nms_follows_the_greedy_rule(extension: types.ModuleType, offset: int) -> None:
    boxes, scores = random_boxes(400), random_scores(400, ties=False)
    kept = extension.nms(boxes, scores, iou_threshold=0.3, offset=offset)
    assert kept.tolist() == greedy_loop(boxes, scores, 0.3, offset)
    assert kept.dtype == torch.int64


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("count", COUNTS)
def test_nms_keeps_what_the_compiled_one_keeps(extension, compiled, count, offset, ties) -> None:
    scores = random_scores(count, ties)
    for boxes in (random_boxes(count), whole_number_boxes(count)):
        for threshold in (0.0, 0.3, 0.5, 0.9):
            ours = extension.nms(boxes, scores, iou_threshold=threshold, offset=offset)
            theirs = compiled.nms(boxes, scores, iou_threshold=threshold, offset=offset)
            assert ours.dtype == theirs.dtype
            assert torch.equal(ours, theirs)


def test_an_overlap_equal_to_the_threshold_suppresses_in_nms_match_but_not_in_nms(extension) -> None:
    boxes = torch.tensor([[0.0, 0, 2, 2], [0, 0, 2, 1]])
    scores = torch.tensor([0.9, 0.8])
    assert extension.nms(boxes, scores, 0.5, 0).tolist() == [0, 1]
    assert extension.nms_match(torch.cat([boxes, scores[:, None]], 1), 0.5) == [[0, 1]]


def test_boxes_without_area_suppress_nothing(extension, compiled) -> None:
    boxes = torch.tensor([[1.0, 1, 1, 1], [1, 1, 1, 1], [float("nan"), 0, 2, 2], [0, 0, 2, 2]])
    scores = torch.tensor([0.9, 0.8, 0.7, 0.6])
    ours = extension.nms(boxes, scores, iou_threshold=0.5, offset=0)
    assert torch.equal(ours, compiled.nms(boxes, scores, iou_threshold=0.5, offset=0))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_nms_takes_other_float_types(extension, dtype: torch.dtype) -> None:
    boxes, scores = random_boxes(200).to(dtype), random_scores(200, ties=False)
    kept = extension.nms(boxes, scores.to(dtype), iou_threshold=0.4, offset=0)
    assert set(kept.tolist()) == set(greedy_loop(boxes, scores.to(dtype), 0.4, 0))


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("count", [1, 2, 255, 256, 257, 1500])
def test_nms_match_groups_as_the_compiled_one_does(extension, compiled, count, ties) -> None:
    for boxes in (random_boxes(count), whole_number_boxes(count)):
        dets = torch.cat([boxes, random_scores(count, ties)[:, None]], 1)
        for threshold in (0.2, 0.5, 0.8):
            assert extension.nms_match(dets, threshold) == compiled.nms_match(dets, threshold)


def test_nms_match_of_nothing_is_an_empty_list(extension) -> None:
    assert extension.nms_match(torch.zeros(0, 5), 0.5) == []


@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("method", [0, 1, 2])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("count", [0, 1, 60])
def test_softnms_picks_and_lowers_as_the_compiled_one_does(
    extension, compiled, count, ties, method, offset
) -> None:
    for boxes in (random_boxes(count, 100), whole_number_boxes(count)):
        scores = random_scores(count, ties)
        ours, theirs = torch.zeros(count, 5), torch.zeros(count, 5)
        rest = {"iou_threshold": 0.3, "sigma": 0.5, "min_score": 0.05, "method": method, "offset": offset}
        expected = compiled.softnms(boxes, scores, theirs, **rest)
        kept = extension.softnms(boxes, scores, ours, **rest)
        assert torch.equal(kept, expected)
        torch.testing.assert_close(ours[: len(kept)], theirs[: len(kept)])
