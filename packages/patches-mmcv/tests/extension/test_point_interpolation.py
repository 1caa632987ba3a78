"""Interpolation equals a weighted sum of indexed features, and its gradient is that of the sum."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("count", [0, 1, 13])
def test_interpolation_equals_a_weighted_sum(extension, count, dtype) -> None:
    features = torch.randn(2, 4, 6).to(dtype)
    indices, weights = torch.randint(0, 6, (2, count, 3)).int(), torch.rand(2, count, 3).to(dtype)
    interpolated = torch.full((2, 4, count), 7.0, dtype=dtype)
    extension.three_interpolate_forward(features, indices, weights, interpolated, b=2, c=4, m=6, n=count)
    expected = torch.stack(
        [(f.double()[:, i.long()] * w.double()).sum(2) for f, i, w in zip(features, indices, weights)]
    )
    torch.testing.assert_close(interpolated, expected.to(dtype))


def test_interpolation_gradients_through_mmcv(mmcv_ops) -> None:
    features = torch.randn(2, 4, 6, dtype=torch.float64, requires_grad=True)
    indices = torch.randint(0, 6, (2, 13, 3)).int()
    weights = torch.rand(2, 13, 3, dtype=torch.float64)
    assert torch.autograd.gradcheck(mmcv_ops.three_interpolate, (features, indices, weights))
