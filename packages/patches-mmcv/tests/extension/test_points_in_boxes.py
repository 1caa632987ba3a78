"""Membership of points in rotated boxes equals the compiled operator and a rotation written out."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")


def random_boxes(count: int) -> torch.Tensor:
    centre, size = torch.rand(count, 3) * 8 - 4, torch.rand(count, 3) * 3 + 0.2
    return torch.cat([centre, size, torch.rand(count, 1) * 20 - 10], 1)


def random_points(count: int) -> torch.Tensor:
    return torch.rand(count, 3) * 10 - 5


def by_definition(boxes: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
    """(T, N), in float64, one pair at a time."""
    inside = torch.zeros(len(boxes), len(points), dtype=torch.int32)
    for row, (cx, cy, bottom, length, width, height, yaw) in enumerate(boxes.double().tolist()):
        for column, (x, y, z) in enumerate(points.double().tolist()):
            along = (x - cx) * math.cos(yaw) + (y - cy) * math.sin(yaw)
            across = (y - cy) * math.cos(yaw) - (x - cx) * math.sin(yaw)
            inside[row, column] = bottom <= z <= bottom + height and (
                abs(along) < length / 2 and abs(across) < width / 2
            )
    return inside


@pytest.mark.parametrize(("boxes", "points"), [(0, 5), (3, 0), (1, 1), (7, 4001)])
def test_membership_equals_the_compiled_one(extension, compiled, boxes, points) -> None:
    boxes, points = random_boxes(boxes), random_points(points)
    ours = torch.full((len(boxes), len(points)), 9, dtype=torch.int32)
    theirs = torch.full_like(ours, 9)
    extension.points_in_boxes_cpu_forward(boxes, points, ours)
    compiled.points_in_boxes_cpu_forward(boxes, points, theirs)
    assert torch.equal(ours, theirs)


def test_membership_equals_its_definition(extension) -> None:
    boxes, points = random_boxes(6), random_points(300)
    inside = torch.zeros(6, 300, dtype=torch.int32)
    extension.points_in_boxes_cpu_forward(boxes, points, inside)
    expected = by_definition(boxes, points)
    assert expected.any()
    assert torch.equal(inside, expected)


def test_top_and_bottom_belong_to_a_box_and_its_sides_do_not(extension) -> None:
    box = torch.tensor([[0.0, 0, 0, 2, 2, 2, 0]])
    points = torch.tensor([[0.0, 0, 0], [0, 0, 2], [1, 0, 1], [0, -1, 1]])
    inside = torch.zeros(1, 4, dtype=torch.int32)
    extension.points_in_boxes_cpu_forward(box, points, inside)
    assert inside.tolist() == [[1, 1, 0, 0]]


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_part_gives_the_first_box_and_all_gives_every_box(extension, dtype) -> None:
    boxes = torch.stack([random_boxes(9), random_boxes(9)]).to(dtype)
    boxes[:, [2, 5], :6] = torch.tensor([0, 0, -1, 4, 4, 3], dtype=dtype)
    points = torch.stack([random_points(500), random_points(500)]).to(dtype)
    first = torch.full((2, 500), -1, dtype=torch.int32)
    every = torch.zeros(2, 500, 9, dtype=torch.int32)
    extension.points_in_boxes_part_forward(boxes, points, first)
    extension.points_in_boxes_all_forward(boxes, points, every)
    for sample in range(2):
        expected = torch.zeros(9, 500, dtype=torch.int32)
        extension.points_in_boxes_cpu_forward(boxes[sample], points[sample], expected)
        assert torch.equal(every[sample], expected.t())
        first_box = [column.nonzero().flatten().tolist()[:1] or [-1] for column in expected.t()]
        assert first[sample].tolist() == [box for (box,) in first_box]
    assert every.sum(2).max() > 1


def test_points_of_a_batch_without_boxes_keep_their_values(extension) -> None:
    first = torch.full((1, 4), -1, dtype=torch.int32)
    extension.points_in_boxes_part_forward(torch.zeros(1, 0, 7), torch.rand(1, 4, 3), first)
    assert first.tolist() == [[-1, -1, -1, -1]]
