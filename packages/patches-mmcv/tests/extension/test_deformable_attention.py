"""Multi-scale deformable attention equals mmcv's own grid_sample formulation, values and gradients."""

from __future__ import annotations

import types

import pytest

torch = pytest.importorskip("torch")

LEVELS = torch.tensor([(7, 5), (4, 3), (1, 2)])


def random_inputs(dtype: torch.dtype, batch: int = 2, queries: int = 11, heads: int = 3, points: int = 2):
    keys, levels = int(LEVELS.prod(1).sum()), len(LEVELS)
    value = torch.randn(batch, keys, heads, 5, dtype=dtype)
    # A third of the points lies outside the maps, none at the centre of a pixel, where the slope jumps.
    sizes = LEVELS.flip(1)[:, None].to(dtype)
    cell = ((torch.rand(batch, queries, heads, levels, points, 2, dtype=dtype) * 1.5 - 0.25) * sizes).floor()
    locations = (cell + 0.5 + 0.05 + 0.9 * torch.rand_like(cell)) / sizes
    weights = torch.rand(batch, queries, heads, levels, points, dtype=dtype)
    return value, locations, weights


def level_start() -> torch.Tensor:
    return torch.cat([LEVELS.new_zeros(1), LEVELS.prod(1).cumsum(0)[:-1]])


def forward(extension: types.ModuleType, value, locations, weights) -> torch.Tensor:
    return extension.ms_deform_attn_forward(value, LEVELS, level_start(), locations, weights, im2col_step=64)


def backward(extension: types.ModuleType, value, locations, weights, grad) -> list[torch.Tensor]:
    grads = [torch.zeros_like(tensor) for tensor in (value, locations, weights)]
    extension.ms_deform_attn_backward(
        value, LEVELS, level_start(), locations, weights, grad, *grads, im2col_step=64
    )
    return grads


def by_definition(value, locations, weights) -> torch.Tensor:
    """The sum over every pixel of every level, weighted with the hat function around the sampled point."""
    out = 0
    for level, ((height, width), start) in enumerate(zip(LEVELS.tolist(), level_start().tolist())):
        pixels = value[:, start : start + height * width].unflatten(1, (height, width))
        x = locations[:, :, :, level, :, 0] * width - 0.5
        y = locations[:, :, :, level, :, 1] * height - 0.5
        hat_x = (1 - (x[..., None] - torch.arange(width)).abs()).clamp(min=0)
        hat_y = (1 - (y[..., None] - torch.arange(height)).abs()).clamp(min=0)
        out = out + torch.einsum(
            "nqhp,nqhpy,nqhpx,nyxhc->nqhc", weights[:, :, :, level], hat_y, hat_x, pixels
        )
    return out.flatten(2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_and_gradients_follow_the_definition(extension, dtype) -> None:
    inputs = [tensor.requires_grad_() for tensor in random_inputs(dtype)]
    expected = by_definition(*inputs)
    grad = torch.randn_like(expected)
    actual = forward(extension, *inputs)
    torch.testing.assert_close(actual, expected.detach(), atol=1e-5, rtol=1e-5)
    for ours, theirs in zip(backward(extension, *inputs, grad), torch.autograd.grad(expected, inputs, grad)):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


def test_values_and_gradients_equal_the_python_fallback_of_mmcv(extension) -> None:
    attention = pytest.importorskip("mmcv.ops.multi_scale_deform_attn", exc_type=ImportError)
    value, locations, weights = inputs = [tensor.requires_grad_() for tensor in random_inputs(torch.float64)]
    expected = attention.multi_scale_deformable_attn_pytorch(value, LEVELS, locations, weights)
    grad = torch.randn_like(expected)
    torch.testing.assert_close(forward(extension, *inputs), expected.detach())
    for ours, theirs in zip(backward(extension, *inputs, grad), torch.autograd.grad(expected, inputs, grad)):
        torch.testing.assert_close(ours, theirs)


def test_many_queries_are_worked_off_in_chunks(extension, monkeypatch) -> None:
    value, locations, weights = random_inputs(torch.float64, queries=50)
    expected = forward(extension, value, locations, weights)
    grad = torch.randn_like(expected)
    expected_gradients = backward(extension, value, locations, weights, grad)
    monkeypatch.setattr("mmcv_patches.extension.deformable_attention.SAMPLED_PIXELS", 300)
    torch.testing.assert_close(forward(extension, value, locations, weights), expected)
    for ours, theirs in zip(backward(extension, value, locations, weights, grad), expected_gradients):
        torch.testing.assert_close(ours, theirs)


def test_half_precision_is_computed_in_single_precision(extension) -> None:
    value, locations, weights = (tensor.half() for tensor in random_inputs(torch.float32))
    actual = forward(extension, value, locations, weights)
    assert actual.dtype == torch.float16
    expected = forward(extension, value.float(), locations.float(), weights.float())
    torch.testing.assert_close(actual, expected.half(), atol=0, rtol=0)
    grads = backward(extension, value, locations, weights, torch.randn_like(actual))
    assert [grad.dtype for grad in grads] == [torch.float16] * 3


def test_the_gradient_at_a_pixel_centre_is_that_of_the_cell_to_its_right(extension) -> None:
    value, locations, weights = random_inputs(torch.float64, batch=1, queries=1, heads=1, points=1)
    height, width = LEVELS[0].tolist()
    weights[..., 1:, :] = 0
    locations[...] = torch.tensor([(2 + 0.5) / width, (3 + 0.5) / height])
    _, grad, _ = backward(extension, value, locations, weights, torch.ones(1, 1, 5, dtype=torch.float64))
    sums = value[0, : height * width, 0].sum(-1).view(height, width)
    slope = torch.stack([(sums[3, 3] - sums[3, 2]) * width, (sums[4, 2] - sums[3, 2]) * height])
    torch.testing.assert_close(grad[0, 0, 0, 0, 0], slope * weights[0, 0, 0, 0, 0])


@pytest.mark.parametrize("batch, queries", [(0, 3), (2, 0)])
def test_nothing_to_attend_gives_empty_results(extension, batch: int, queries: int) -> None:
    value, locations, weights = random_inputs(torch.float32, batch=batch, queries=queries)
    out = forward(extension, value, locations, weights)
    assert out.shape == (batch, queries, 15)
    assert not backward(extension, value, locations, weights, out)[0].any()


@pytest.mark.parametrize("outside", [float("nan"), float("inf"), -float("inf"), 1e30])
def test_a_location_that_is_not_on_the_map_samples_nothing(extension, outside: float) -> None:
    value, locations, weights = random_inputs(torch.float32)
    locations[:, 0] = outside
    out = forward(extension, value, locations, weights)
    assert not out[:, 0].any()
    assert out[:, 1:].isfinite().all()
