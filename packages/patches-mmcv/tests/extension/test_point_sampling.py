"""Furthest point sampling equals a loop over pairs; gathering equals indexing, with its gradient."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")


def furthest_by_loop(distance, count: int, wanted: int) -> tuple[list[int], list[float]]:
    """The rule itself: ``distance(i, j)`` of points, one at a time; ties go to the first."""
    nearest = [1e10] * count
    taken = [0]
    for _ in range(wanted - 1):
        nearest = [min(known, distance(taken[-1], index)) for index, known in enumerate(nearest)]
        taken.append(max(range(count), key=lambda index: (nearest[index], -index)))
    return taken, nearest


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("count", "wanted"), [(1, 1), (1, 3), (40, 17), (40, 60)])
def test_furthest_point_sampling_equals_a_loop(extension, count, wanted, dtype) -> None:
    points = (torch.rand(3, count, 3) * 64).round().to(dtype) / 8
    nearest = torch.full((3, count), 1e10, dtype=dtype)
    indices = torch.full((3, wanted), 9, dtype=torch.int32)
    extension.furthest_point_sampling_forward(points, nearest, indices, b=3, n=count, m=wanted)
    for sample in range(3):
        coordinates = points[sample].tolist()
        taken, distances = furthest_by_loop(
            lambda i, j, c=coordinates: sum((a - b) ** 2 for a, b in zip(c[i], c[j])), count, wanted
        )
        assert indices[sample].tolist() == taken
        torch.testing.assert_close(nearest[sample], torch.tensor(distances, dtype=dtype))


@pytest.mark.parametrize(("count", "wanted"), [(1, 2), (50, 20)])
def test_furthest_point_sampling_with_distances_equals_a_loop(extension, count, wanted) -> None:
    distances = torch.rand(2, count, count)
    nearest = torch.full((2, count), 1e10)
    indices = torch.zeros(2, wanted, dtype=torch.int32)
    extension.furthest_point_sampling_with_dist_forward(distances, nearest, indices, b=2, n=count, m=wanted)
    for sample in range(2):
        rows = distances[sample].tolist()
        taken, remaining = furthest_by_loop(lambda i, j, r=rows: r[i][j], count, wanted)
        assert indices[sample].tolist() == taken
        torch.testing.assert_close(nearest[sample], torch.tensor(remaining))


def test_sampling_by_position_and_by_distance_agree(extension) -> None:
    points = torch.rand(2, 300, 3, dtype=torch.float64)
    by_position, by_distance = (torch.zeros(2, 50, dtype=torch.int32) for _ in range(2))
    extension.furthest_point_sampling_forward(
        points, torch.full((2, 300), 1e10, dtype=torch.float64), by_position, 2, 300, 50
    )
    squared = (points.unsqueeze(2) - points.unsqueeze(1)).square().sum(3)
    extension.furthest_point_sampling_with_dist_forward(
        squared, torch.full((2, 300), 1e10, dtype=torch.float64), by_distance, 2, 300, 50
    )
    assert torch.equal(by_position, by_distance)


def test_of_equally_far_points_the_first_is_taken(extension) -> None:
    points = torch.tensor([[[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 0]]])
    indices = torch.zeros(1, 4, dtype=torch.int32)
    extension.furthest_point_sampling_forward(points, torch.full((1, 4), 1e10), indices, 1, 4, 4)
    assert indices.tolist() == [[0, 1, 2, 0]]


def test_sampling_from_no_points_and_sampling_none(extension) -> None:
    indices = torch.full((2, 3), 5, dtype=torch.int32)
    extension.furthest_point_sampling_forward(torch.zeros(2, 0, 3), torch.zeros(2, 0), indices, 2, 0, 3)
    assert not indices.any()
    extension.furthest_point_sampling_forward(
        torch.rand(2, 4, 3), torch.full((2, 4), 1e10), indices[:, :0], 2, 4, 0
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("wanted", [0, 1, 11])
def test_gathering_equals_indexing(extension, wanted, dtype) -> None:
    points = torch.randn(2, 3, 8).to(dtype)
    indices = torch.randint(0, 8, (2, wanted)).int()
    gathered = torch.full((2, 3, wanted), 7.0, dtype=dtype)
    extension.gather_points_forward(points, indices, gathered, b=2, c=3, n=8, npoints=wanted)
    assert torch.equal(gathered, torch.stack([p[:, i.long()] for p, i in zip(points, indices)]))


def test_gathering_gradients_through_mmcv(mmcv_ops) -> None:
    points = torch.randn(2, 3, 8, dtype=torch.float64, requires_grad=True)
    indices = torch.randint(0, 8, (2, 11)).int()
    assert torch.autograd.gradcheck(mmcv_ops.gather_points, (points, indices))


def test_gathering_gradients_are_added(extension) -> None:
    gradient = torch.ones(1, 1, 3)
    extension.gather_points_backward(
        torch.tensor([[[2.0, 4.0]]]), torch.tensor([[1, 1]]).int(), gradient, b=1, c=1, n=3, npoints=2
    )
    assert gradient.tolist() == [[[1, 7, 1]]]
