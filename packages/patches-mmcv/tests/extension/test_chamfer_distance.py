"""Chamfer distance equals the minimum over all pairs, and its gradient that of the minimum."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("first", "second"), [(1, 1), (7, 33), (400, 1)])
def test_chamfer_distance_equals_the_minimum_over_pairs(extension, first, second, dtype) -> None:
    a, b = (torch.randn(3, count, 2, dtype=dtype, requires_grad=True) for count in (first, second))
    pairs = (a.unsqueeze(2) - b.unsqueeze(1)).square().sum(3)
    expected = pairs.min(2), pairs.min(1)
    outputs = [torch.zeros(3, count, dtype=dtype) for count in (first, second)]
    indices = [torch.zeros(3, count, dtype=torch.int32) for count in (first, second)]
    extension.chamfer_distance_forward(a, b, *outputs, *indices)
    for output, index, minimum in zip(outputs, indices, expected):
        torch.testing.assert_close(output, minimum.values.detach())
        assert torch.equal(index.long(), minimum.indices)

    upstream = [torch.randn_like(output) for output in outputs]
    torch.autograd.backward([minimum.values for minimum in expected], upstream)
    gradients = [torch.zeros_like(points) for points in (a, b)]
    extension.chamfer_distance_backward(a, b, *indices, *upstream, *gradients)
    # One point may be the nearest of hundreds, whose terms cancel: rounding is that of the terms.
    furthest = 2 * max(float(points.detach().abs().amax()) for points in (a, b))
    terms = 2 * furthest * sum(float(weights.abs().sum()) for weights in upstream)
    tolerance = 8 * torch.finfo(dtype).eps * terms
    torch.testing.assert_close(gradients[0], a.grad, rtol=1e-5, atol=tolerance)
    torch.testing.assert_close(gradients[1], b.grad, rtol=1e-5, atol=tolerance)


def test_of_equally_near_points_the_first_is_taken(extension) -> None:
    a, b = torch.zeros(1, 1, 2), torch.tensor([[[0.0, 2], [1, 0], [0, 1], [-1, 0]]])
    distances, indices = torch.zeros(1, 1), torch.zeros(1, 1, dtype=torch.int32)
    extension.chamfer_distance_forward(a, b, distances, torch.zeros(1, 4), indices, torch.zeros(1, 4).int())
    assert (distances.item(), indices.item()) == (1, 1)


def test_chamfer_distance_to_an_empty_set_leaves_the_outputs(extension) -> None:
    distances, indices = torch.full((1, 3), 5.0), torch.full((1, 3), 6, dtype=torch.int32)
    nothing = torch.zeros(1, 0)
    extension.chamfer_distance_forward(
        torch.rand(1, 3, 2), torch.zeros(1, 0, 2), distances, nothing, indices, nothing.int()
    )
    assert distances.tolist() == [[5, 5, 5]]
    assert indices.tolist() == [[6, 6, 6]]


def test_chamfer_distance_of_mmcv_runs_forward_and_backward(mmcv_ops) -> None:
    a, b = torch.rand(2, 5, 2, requires_grad=True), torch.rand(2, 8, 2, requires_grad=True)
    first, second, *_ = mmcv_ops.chamfer_distance(a, b)
    (first.sum() + second.sum()).backward()
    torch.testing.assert_close(a.grad.sum(1), -b.grad.sum(1))
