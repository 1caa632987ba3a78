"""Score assembly equals the sum of its definition, and its gradients are those of the sum."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

SAMPLES, POINTS, CENTRES, WEIGHTS, NEIGHBOURS, OUT = 2, 5, 3, 2, 3, 4
SIZES = {"B": SAMPLES, "N0": POINTS, "N1": CENTRES, "M": WEIGHTS, "K": NEIGHBOURS, "O": OUT, "aggregate": 0}


def example(dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    points, centres = (torch.randn(SAMPLES, POINTS, WEIGHTS, OUT, dtype=dtype) for _ in range(2))
    scores = torch.rand(SAMPLES, CENTRES, NEIGHBOURS, WEIGHTS, dtype=dtype)
    return points, centres, scores, torch.randint(0, POINTS, (SAMPLES, CENTRES, NEIGHBOURS))


def by_definition(points, centres, scores, neighbours) -> torch.Tensor:
    output = torch.zeros(SAMPLES, OUT, CENTRES, NEIGHBOURS, dtype=points.dtype)
    for b, n, k in torch.cartesian_prod(*map(torch.arange, (SAMPLES, CENTRES, NEIGHBOURS))).tolist():
        neighbour, centre = neighbours[b, n, k], neighbours[b, n, 0]
        if 0 <= neighbour < POINTS:
            difference = points[b, neighbour] - centres[b, centre]
            output[b, :, n, k] = (scores[b, n, k].unsqueeze(1) * difference).sum(0)
    return output


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_assembly_equals_its_definition_and_adds_to_the_output(extension, dtype) -> None:
    points, centres, scores, neighbours = example(dtype)
    neighbours[0, 1, 2], neighbours[1, 2, 1] = POINTS, -1
    output = torch.ones(SAMPLES, OUT, CENTRES, NEIGHBOURS, dtype=dtype)
    extension.assign_score_withk_forward(points, centres, scores, neighbours, output, **SIZES)
    torch.testing.assert_close(output, 1 + by_definition(points, centres, scores, neighbours))


def test_neighbours_outside_get_no_gradient(extension) -> None:
    points, centres, scores, neighbours = example(torch.float64)
    neighbours[:, :, 1:] = POINTS
    upstream = torch.randn(SAMPLES, OUT, CENTRES, NEIGHBOURS, dtype=torch.float64)
    gradients = [torch.zeros_like(values) for values in (points, centres, scores)]
    extension.assign_score_withk_backward(upstream, points, centres, scores, neighbours, *gradients, **SIZES)
    assert not gradients[2][:, :, 1:].any()
    assert gradients[2][:, :, :1].all()
    only_first = torch.einsum("bnm,bon->bmo", scores[:, :, 0], upstream[:, :, :, 0])
    torch.testing.assert_close(gradients[0].sum(1), only_first)


def test_assembly_gradients_through_mmcv(mmcv_ops) -> None:
    points, centres, scores, neighbours = example(torch.float64)
    inputs = [values.requires_grad_() for values in (scores, points, centres)]
    assert torch.autograd.gradcheck(lambda *values: mmcv_ops.assign_score_withk(*values, neighbours), inputs)
