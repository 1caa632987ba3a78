"""Neighbour searches equal a search that looks at one pair of points after another."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

SIZES = [(1, 1), (5, 3), (333, 57)]


def random_points(samples: int, count: int, dtype: torch.dtype, on_lattice: bool) -> torch.Tensor:
    """On a lattice many distances are equal, and many points coincide."""
    points = torch.rand(samples, count, 3)
    return ((points * 4).round() / 4 if on_lattice else points).to(dtype)


def squared_distances(centre: torch.Tensor, points: torch.Tensor) -> list[float]:
    """With the summation order of the operators, so that points on a border fall on the same side."""
    dx, dy, dz = (centre - points).unbind(1)
    return (dx * dx + dy * dy + dz * dz).tolist()


@pytest.mark.parametrize("on_lattice", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("count", "centres"), SIZES)
def test_ball_query_takes_the_first_points_in_the_shell(extension, count, centres, dtype, on_lattice) -> None:
    points = random_points(2, count, dtype, on_lattice)
    queries = random_points(2, centres, dtype, on_lattice)
    for smallest, largest, wanted in ((0.0, 0.25, 5), (0.25, 0.5, 3), (0.0, 9.0, 1)):
        found = torch.zeros(2, centres, wanted, dtype=torch.int32)
        extension.ball_query_forward(queries, points, found, 2, count, centres, smallest, largest, wanted)
        for sample in range(2):
            for query in range(centres):
                distances = squared_distances(queries[sample, query], points[sample])
                inside = [
                    index
                    for index, distance in enumerate(distances)
                    if distance == 0 or smallest**2 <= distance < largest**2
                ][:wanted]
                expected = inside + [inside[0] if inside else 0] * (wanted - len(inside))
                assert found[sample, query].tolist() == expected


def test_ball_query_leaves_the_row_of_an_empty_ball_as_it_is(extension) -> None:
    found = torch.full((1, 1, 3), 42, dtype=torch.int32)
    extension.ball_query_forward(torch.zeros(1, 1, 3), torch.ones(1, 4, 3), found, 1, 4, 1, 0.0, 1.0, 3)
    assert found.tolist() == [[[42, 42, 42]]]


def test_ball_query_of_no_points_and_of_no_centres(extension) -> None:
    found = torch.zeros(1, 2, 3, dtype=torch.int32)
    extension.ball_query_forward(torch.zeros(1, 2, 3), torch.zeros(1, 0, 3), found, 1, 0, 2, 0.0, 1.0, 3)
    assert not found.any()
    extension.ball_query_forward(
        torch.zeros(1, 0, 3), torch.zeros(1, 2, 3), found[:, :0], 1, 2, 0, 0.0, 1.0, 3
    )


def test_stacked_ball_query_searches_within_each_sample(extension) -> None:
    point_counts, centre_counts, wanted = [40, 0, 25], [3, 2, 4], 6
    points, queries = torch.rand(65, 3), torch.rand(9, 3)
    found = torch.zeros(9, wanted, dtype=torch.int32)
    extension.stack_ball_query_forward(
        queries,
        torch.tensor(centre_counts, dtype=torch.int32),
        points,
        torch.tensor(point_counts, dtype=torch.int32),
        found,
        max_radius=0.3,
        nsample=wanted,
    )
    expected = []
    for own_points, own_queries in zip(points.split(point_counts), queries.split(centre_counts)):
        for query in own_queries:
            distances = squared_distances(query, own_points)
            inside = [index for index, distance in enumerate(distances) if distance < 0.3**2][:wanted]
            if inside:
                expected.append(inside + [inside[0]] * (wanted - len(inside)))
            else:
                expected.append([-1] + [0] * (wanted - 1))
    assert found.tolist() == expected
    assert [-1, 0, 0, 0, 0, 0] in expected


def ordered_neighbours(centre: torch.Tensor, points: torch.Tensor) -> list[tuple[float, int]]:
    return sorted((distance, index) for index, distance in enumerate(squared_distances(centre, points)))


@pytest.mark.parametrize("on_lattice", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("count", "centres"), SIZES)
def test_knn_orders_by_distance_and_then_by_index(extension, count, centres, dtype, on_lattice) -> None:
    points = random_points(2, count, dtype, on_lattice)
    queries = random_points(2, centres, dtype, on_lattice)
    for wanted in (1, 4, 20):
        indices = torch.full((2, centres, wanted), 7, dtype=torch.int32)
        distances = torch.zeros(2, centres, wanted, dtype=dtype)
        extension.knn_forward(points, queries, indices, distances, 2, count, centres, wanted)
        for sample in range(2):
            for query in range(centres):
                expected = ordered_neighbours(queries[sample, query], points[sample])[:wanted]
                expected += [(1e10, 0)] * (wanted - len(expected))
                assert indices[sample, query].tolist() == [index for _, index in expected]
                torch.testing.assert_close(
                    distances[sample, query],
                    torch.tensor([distance for distance, _ in expected], dtype=dtype),
                )


@pytest.mark.parametrize("on_lattice", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("count", "centres"), SIZES)
def test_three_nn_orders_by_distance_and_then_by_index(extension, count, centres, dtype, on_lattice) -> None:
    known = random_points(2, count, dtype, on_lattice)
    unknown = random_points(2, centres, dtype, on_lattice)
    indices = torch.full((2, centres, 3), 7, dtype=torch.int32)
    distances = torch.zeros(2, centres, 3, dtype=dtype)
    extension.three_nn_forward(unknown, known, distances, indices, b=2, n=centres, m=count)
    missing = 1e40 if dtype == torch.float64 else float("inf")
    for sample in range(2):
        for query in range(centres):
            expected = ordered_neighbours(unknown[sample, query], known[sample])[:3]
            expected += [(missing, 0)] * (3 - len(expected))
            assert indices[sample, query].tolist() == [index for _, index in expected]
            torch.testing.assert_close(
                distances[sample, query], torch.tensor([distance for distance, _ in expected], dtype=dtype)
            )


def test_points_that_are_not_numbers_are_nobodys_neighbours(extension) -> None:
    points = torch.rand(1, 6, 3)
    points[0, [0, 3]] = float("nan")
    indices, distances = torch.zeros(1, 2, 5, dtype=torch.int32), torch.zeros(1, 2, 5)
    extension.knn_forward(points, torch.rand(1, 2, 3), indices, distances, 1, 6, 2, 5)
    assert set(indices[0, 0, :4].tolist()) == {1, 2, 4, 5}
    assert indices[0, 0, 4] == 0
    assert distances[0, 0, 4] == 1e10


def test_half_precision_neighbours_are_those_of_the_same_points_in_single_precision(extension) -> None:
    points, queries = torch.rand(1, 200, 3).half(), torch.rand(1, 20, 3).half()
    found = {}
    for dtype in (torch.float16, torch.float32):
        indices, distances = torch.zeros(1, 20, 3, dtype=torch.int32), torch.zeros(1, 20, 3, dtype=dtype)
        extension.three_nn_forward(queries.to(dtype), points.to(dtype), distances, indices, 1, 20, 200)
        found[dtype] = indices
    assert torch.equal(found[torch.float16], found[torch.float32])


def test_a_search_among_many_points_is_split_without_a_seam(extension) -> None:
    points, queries = torch.rand(1, 60_000, 3), torch.rand(1, 70, 3)
    indices, distances = torch.zeros(1, 70, 2, dtype=torch.int32), torch.zeros(1, 70, 2)
    extension.knn_forward(points, queries, indices, distances, 1, 60_000, 70, 2)
    for query in (0, 16, 17, 18, 35, 69):
        differences = points[0].double() - queries[0, query].double()
        exact = differences.square().sum(1)
        torch.testing.assert_close(distances[0, query].double(), exact.sort().values[:2])
        torch.testing.assert_close(exact[indices[0, query].long()], exact.sort().values[:2])
