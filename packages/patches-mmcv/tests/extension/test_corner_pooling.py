"""Corner pooling against a loop over rows or columns that keeps the first maximum."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

#: The dimension that is walked along, and whether from its end.
DIRECTIONS = {"bottom": (2, False), "top": (2, True), "right": (3, False), "left": (3, True)}
SHAPES = [(2, 3, 5, 4), (1, 1, 1, 1), (0, 2, 3, 3), (2, 1, 3, 0)]


def walk(x, grad, dim, from_end):
    order = range(x.shape[dim])
    order = list(reversed(order)) if from_end else list(order)
    output, grad_input = torch.empty_like(x), torch.zeros_like(x)
    if x.numel():
        best = x.select(dim, order[0]).clone()
        place = torch.full_like(best, order[0], dtype=torch.int64)
    for index in order if x.numel() else []:
        value = x.select(dim, index)
        place = torch.where(value > best, torch.full_like(place, index), place)
        best = torch.where(value > best, value, best)
        output.select(dim, index).copy_(best)
        grad_input.scatter_add_(dim, place.unsqueeze(dim), grad.select(dim, index).unsqueeze(dim))
    return output, grad_input


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_corner_pool_and_gradient(extension, assert_matches, direction, shape, dtype):
    x = torch.randint(0, 4, shape).to(dtype)  # few values: maxima are met more than once
    grad = torch.randn(shape).to(dtype)
    expected, expected_grad = walk(
        x, grad.double() if dtype == torch.float64 else grad, *DIRECTIONS[direction]
    )
    assert torch.equal(getattr(extension, f"{direction}_pool_forward")(input=x), expected)
    grad_input = getattr(extension, f"{direction}_pool_backward")(input=x, grad_output=grad)
    assert_matches(grad_input, expected_grad, scale=4)
