"""Grouping equals indexing, and its gradient is that of indexing."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize(("groups", "size"), [(0, 3), (5, 1), (7, 4)])
def test_grouping_equals_indexing(extension, groups, size, dtype) -> None:
    points = torch.randn(2, 3, 9).to(dtype)
    indices = torch.randint(0, 9, (2, groups, size)).int()
    grouped = torch.full((2, 3, groups, size), 7.0, dtype=dtype)
    extension.group_points_forward(points, indices, grouped, b=2, c=3, n=9, npoints=groups, nsample=size)
    assert torch.equal(grouped, torch.stack([p[:, i.long()] for p, i in zip(points, indices)]))


def test_grouping_gradients_through_mmcv(mmcv_ops) -> None:
    points = torch.randn(2, 3, 9, dtype=torch.float64, requires_grad=True)
    indices = torch.randint(0, 9, (2, 5, 4)).int()
    assert torch.autograd.gradcheck(mmcv_ops.grouping_operation, (points, indices))


STACK = {"points": [4, 0, 6], "groups": [3, 0, 5]}


def stacked_example() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    points = torch.randn(10, 3, dtype=torch.float64)
    indices = torch.cat([torch.randint(0, 4, (3, 2)), torch.randint(0, 6, (5, 2))]).int()
    return points, torch.tensor(STACK["points"]).int(), indices, torch.tensor(STACK["groups"]).int()


def test_stacked_grouping_equals_indexing_within_each_sample(extension) -> None:
    points, point_counts, indices, group_counts = stacked_example()
    grouped = torch.zeros(8, 3, 2, dtype=torch.float64)
    extension.stack_group_points_forward(
        points, point_counts, indices, group_counts, grouped, b=3, c=3, m=8, nsample=2
    )
    expected = [
        own_points[own_indices.long()].transpose(1, 2)
        for own_points, own_indices in zip(points.split(STACK["points"]), indices.split(STACK["groups"]))
    ]
    assert torch.equal(grouped, torch.cat(expected))


def test_stacked_grouping_gives_zero_for_an_index_outside_its_sample(extension) -> None:
    points, point_counts, indices, group_counts = stacked_example()
    indices[0, 0], indices[1, 1], indices[7, 0] = 4, -1, 6
    grouped = torch.zeros(8, 3, 2, dtype=torch.float64)
    extension.stack_group_points_forward(points, point_counts, indices, group_counts, grouped, 3, 3, 8, 2)
    outside = torch.zeros(8, 2, dtype=torch.bool)
    outside[0, 0] = outside[1, 1] = outside[7, 0] = True
    assert not grouped.transpose(1, 2)[outside].any()
    assert grouped.transpose(1, 2)[~outside].all()
    gradient = torch.zeros_like(points)
    extension.stack_group_points_backward(
        torch.ones_like(grouped), indices, group_counts, point_counts, gradient, 3, 3, 8, 10, 2
    )
    assert gradient.sum() == 3 * (16 - 3)


def test_stacked_grouping_gradients_through_mmcv(mmcv_ops) -> None:
    points, point_counts, indices, group_counts = stacked_example()
    assert torch.autograd.gradcheck(
        lambda values: mmcv_ops.grouping_operation(values, indices, point_counts, group_counts),
        points.requires_grad_(),
    )


def test_query_and_group_of_mmcv_gives_relative_positions_within_the_radius(mmcv_ops) -> None:
    points, features = torch.rand(2, 100, 3), torch.randn(2, 4, 100, requires_grad=True)
    grouped = mmcv_ops.QueryAndGroup(0.4, 8)(points, points[:, :10].contiguous(), features)
    assert grouped.shape == (2, 7, 10, 8)
    assert grouped[:, :3].square().sum(1).max() < 0.4**2 + 1e-6
    grouped[:, 3:].sum().backward()
    assert features.grad.sum() == 2 * 4 * 10 * 8
