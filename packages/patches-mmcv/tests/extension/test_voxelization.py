"""Voxelization equals the compiled operators; pooling within voxels equals the sums and maxima of a loop."""

from __future__ import annotations

import itertools
import types

import pytest

torch = pytest.importorskip("torch")

RANGE = torch.tensor([-4.0, -2.0, -1.0, 4.1, 2.0, 1.3])


def random_points(count: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Some on cell borders, some outside, some not finite."""
    points = torch.rand(count, 5) * torch.tensor([9.0, 5, 3, 1, 1]) - torch.tensor([4.5, 2.5, 1.5, 0, 0])
    points[::7] = (points[::7] * 4).round() / 4
    if count > 20:
        points[3, 0], points[5, 1], points[8, 2] = float("nan"), float("inf"), -float("inf")
    return points.to(dtype)


def hard_voxelize(module, points, voxel_size, max_points, max_voxels):
    voxels = points.new_zeros(max_voxels, max_points, points.shape[1])
    coordinates = torch.zeros(max_voxels, 3, dtype=torch.int32)
    counts = torch.zeros(max_voxels, dtype=torch.int32)
    number = torch.zeros((), dtype=torch.int64)
    module.hard_voxelize_forward(
        points,
        torch.tensor(voxel_size),
        RANGE,
        voxels,
        coordinates,
        counts,
        number,
        max_points=max_points,
        max_voxels=max_voxels,
        NDim=3,
        deterministic=True,
    )
    return voxels, coordinates, counts, number


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize("voxel_size", [(0.25, 0.25, 0.25), (0.3, 0.7, 5.0), (10.0, 10.0, 10.0)])
@pytest.mark.parametrize("count", [0, 1, 37, 3000])
def test_hard_voxelization_equals_the_compiled_one(extension, compiled, count, voxel_size, dtype) -> None:
    points = random_points(count, dtype)
    for max_points, max_voxels in itertools.product((1, 4, 64), (1, 30, 5000)):
        ours = hard_voxelize(extension, points, voxel_size, max_points, max_voxels)
        theirs = hard_voxelize(compiled, points, voxel_size, max_points, max_voxels)
        for mine, reference in zip(ours, theirs):
            assert torch.equal(mine.nan_to_num(7, 8, 9), reference.nan_to_num(7, 8, 9))


def test_hard_voxelization_is_by_first_occurrence_and_drops_what_exceeds_the_limits(extension) -> None:
    cells = torch.tensor([[2.0, 0, 0], [1, 0, 0], [2, 0, 0], [2, 0, 0], [0, 0, 0], [1, 0, 0]])
    points = torch.cat([cells + 0.5, torch.arange(6.0).unsqueeze(1)], 1)
    voxels = torch.full((2, 2, 4), 9.0)
    coordinates, counts = torch.zeros(2, 3, dtype=torch.int32), torch.zeros(2, dtype=torch.int32)
    number = torch.zeros((), dtype=torch.int64)
    bounds = torch.tensor([0.0, 0, 0, 3, 1, 1])
    extension.hard_voxelize_forward(
        points, torch.ones(3), bounds, voxels, coordinates, counts, number, 2, 2, 3, True
    )
    assert number.item() == 2
    assert coordinates.tolist() == [[0, 0, 2], [0, 0, 1]]
    assert counts.tolist() == [2, 2]
    assert voxels[:, :, 3].tolist() == [[0, 2], [1, 5]]


def test_hard_voxelization_without_limits_keeps_everything(extension) -> None:
    points = random_points(500)
    limited = hard_voxelize(extension, points, (0.5, 0.5, 0.5), 500, 500)
    voxels = torch.zeros(500, 500, 5)
    coordinates, counts = torch.zeros(500, 3, dtype=torch.int32), torch.zeros(500, dtype=torch.int32)
    number = torch.zeros((), dtype=torch.int64)
    extension.hard_voxelize_forward(
        points, torch.full((3,), 0.5), RANGE, voxels, coordinates, counts, number, -1, -1
    )
    for mine, reference in zip((voxels, coordinates, counts, number), limited):
        assert torch.equal(mine, reference)


def test_hard_voxelization_of_a_grid_too_large_for_32_bits(extension) -> None:
    points = torch.rand(200, 3) * 4
    bounds, size = torch.tensor([0.0, 0, 0, 4, 4, 4]), torch.full((3,), 4 / 4096)
    voxels = torch.zeros(200, 1, 3)
    coordinates, counts = torch.zeros(200, 3, dtype=torch.int32), torch.zeros(200, dtype=torch.int32)
    number = torch.zeros((), dtype=torch.int64)
    extension.hard_voxelize_forward(points, size, bounds, voxels, coordinates, counts, number, 1, 200)
    found = coordinates[: int(number)].flip(1)
    assert torch.equal(found, (voxels[: int(number), 0] / size).floor().int())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize("count", [0, 1, 1001])
def test_dynamic_voxelization_equals_the_compiled_one(extension, compiled, count, dtype) -> None:
    points = random_points(count, dtype)
    for voxel_size in ((0.25, 0.25, 0.25), (0.3, 0.7, 5.0)):
        ours, theirs = (torch.zeros(count, 3, dtype=torch.int32) for _ in range(2))
        extension.dynamic_voxelize_forward(points, torch.tensor(voxel_size), RANGE, ours, NDim=3)
        compiled.dynamic_voxelize_forward(points, torch.tensor(voxel_size), RANGE, theirs, NDim=3)
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("extent", [2.5, 3.5, 2.25])
def test_a_range_of_half_a_voxel_more_is_rounded_as_the_compiled_one_does(
    extension, compiled, extent
) -> None:
    points = torch.rand(300, 3) * 5
    bounds = torch.tensor([0.0, 0, 0, extent, extent, extent])
    ours, theirs = (torch.zeros(300, 3, dtype=torch.int32) for _ in range(2))
    extension.dynamic_voxelize_forward(points, torch.ones(3), bounds, ours, NDim=3)
    compiled.dynamic_voxelize_forward(points, torch.ones(3), bounds, theirs, NDim=3)
    assert torch.equal(ours, theirs)


def pooled_by_loop(features: torch.Tensor, cells: torch.Tensor, reduce: str) -> dict[tuple, torch.Tensor]:
    members: dict[tuple, list[torch.Tensor]] = {}
    for feature, cell in zip(features, cells.tolist()):
        if min(cell) >= 0:
            members.setdefault(tuple(cell), []).append(feature)
    reductions = {
        "sum": lambda rows: rows.sum(0),
        "mean": lambda rows: rows.mean(0),
        "max": lambda rows: rows.amax(0),
    }
    return {cell: reductions[reduce](torch.stack(rows)) for cell, rows in sorted(members.items())}


@pytest.mark.parametrize("coordinate_dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("reduce", ["sum", "mean", "max"])
@pytest.mark.parametrize(("count", "extent"), [(1, 1), (200, 3), (200, 1 << 30)])
def test_pooling_within_voxels_equals_a_loop(extension, count, extent, reduce, coordinate_dtype) -> None:
    features = torch.randn(count, 6, dtype=torch.float64)
    cells = torch.randint(-1, extent, (count, 3)).to(coordinate_dtype)
    expected = pooled_by_loop(features, cells, reduce)
    pooled, voxels, voxel_of_point, counts = extension.dynamic_point_to_voxel_forward(features, cells, reduce)
    assert voxels.dtype == coordinate_dtype
    assert voxel_of_point.dtype == counts.dtype == torch.int32
    assert [tuple(row) for row in voxels.tolist()] == list(expected)
    if expected:
        torch.testing.assert_close(pooled, torch.stack([*expected.values()]))
    inside = voxel_of_point >= 0
    assert torch.equal(inside, (cells >= 0).all(1))
    assert torch.equal(voxels[voxel_of_point[inside].long()], cells[inside])
    assert torch.equal(counts.long(), voxel_of_point[inside].bincount(minlength=len(expected)))


def test_pooling_of_no_points(extension) -> None:
    results = extension.dynamic_point_to_voxel_forward(
        torch.zeros(0, 4), torch.zeros(0, 3, dtype=torch.int32), "max"
    )
    assert [tuple(result.shape) for result in results] == [(0, 4), (0, 3), (0,), (0,)]


def test_pooling_refuses_an_unknown_reduction(extension) -> None:
    with pytest.raises(ValueError, match=r"'median'.*expected 'sum', 'mean' or 'max'"):
        extension.dynamic_point_to_voxel_forward(torch.zeros(1, 1), torch.zeros(1, 3).int(), "median")


@pytest.mark.parametrize("reduce", ["sum", "mean", "max"])
def test_pooling_gradients_through_mmcv(mmcv_ops: types.ModuleType, reduce: str) -> None:
    features = torch.randn(30, 3, dtype=torch.float64, requires_grad=True)
    cells = torch.randint(-1, 2, (30, 3)).int()
    assert torch.autograd.gradcheck(
        lambda values: mmcv_ops.dynamic_scatter(values, cells, reduce)[0], features
    )


def test_the_gradient_of_a_tied_maximum_goes_to_the_first_point(extension) -> None:
    features = torch.tensor([[1.0], [3.0], [3.0], [3.0]])
    cells = torch.tensor([[0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 1]])
    pooled, _, voxel_of_point, counts = extension.dynamic_point_to_voxel_forward(features, cells, "max")
    gradient = torch.full_like(features, 7.0)
    extension.dynamic_point_to_voxel_backward(
        gradient, torch.tensor([[2.0], [5.0]]), features, pooled, voxel_of_point, counts, "max"
    )
    assert gradient.squeeze(1).tolist() == [0, 2, 0, 5]
