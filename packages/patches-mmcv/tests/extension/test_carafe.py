"""CARAFE against a dense formula over unfolded neighbourhoods, in float64 with autograd."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from torch.nn import functional as F  # noqa: E402

#: batch, channels, height, width, kernel, groups, scale
CASES = [(2, 4, 3, 5, 5, 1, 2), (1, 6, 4, 3, 3, 3, 1), (2, 2, 2, 1, 1, 2, 3), (0, 4, 3, 3, 3, 1, 2)]
DTYPES = [torch.float64, torch.float32, torch.float16]


def reassemble(features, masks, kernel, groups, scale):
    batch, channels, height, width = features.shape
    neighbourhoods = F.unfold(features, kernel, padding=kernel // 2)
    neighbourhoods = neighbourhoods.view(batch, groups, channels // groups, kernel**2, height, 1, width, 1)
    masks = masks.view(batch, groups, 1, kernel**2, height, scale, width, scale)
    return (neighbourhoods * masks).sum(3).reshape(batch, channels, height * scale, width * scale)


def make(case, dtype):
    batch, channels, height, width, kernel, groups, scale = case
    features = torch.randn(batch, channels, height, width).to(dtype)
    masks = torch.rand(batch, groups * kernel**2, height * scale, width * scale).to(dtype)
    grad = torch.randn(batch, channels, height * scale, width * scale).to(dtype)
    return features, masks, grad, {"kernel_size": kernel, "group_size": groups, "scale_factor": scale}


def expected_values(features, masks, grad, settings):
    features, masks = features.double().requires_grad_(), masks.double().requires_grad_()
    output = reassemble(features, masks, *settings.values())
    return (output, *torch.autograd.grad(output, (features, masks), grad.double()))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES)
def test_carafe_naive_and_gradients(extension, assert_matches, case, dtype):
    features, masks, grad, settings = make(case, dtype)
    expected, features_slope, masks_slope = expected_values(features, masks, grad, settings)
    output = torch.full_like(grad, 7)
    extension.carafe_naive_forward(features, masks, output, **settings)
    assert_matches(output, expected, scale=8)

    bottom_grad, mask_grad = torch.ones_like(features), torch.ones_like(masks)
    extension.carafe_naive_backward(grad, features, masks, bottom_grad, mask_grad, **settings)
    assert_matches(bottom_grad, 1 + features_slope, scale=8)  # added to what was there
    assert_matches(mask_grad, 1 + masks_slope, scale=8)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES)
def test_carafe_backward_from_what_forward_left(extension, assert_matches, case, dtype):
    features, masks, grad, settings = make(case, dtype)
    expected, features_slope, masks_slope = expected_values(features, masks, grad, settings)
    output, rfeatures = torch.full_like(grad, 7), torch.zeros_like(features)
    extension.carafe_forward(
        features, masks, rfeatures, torch.zeros_like(grad), torch.zeros_like(masks), output, **settings
    )
    assert_matches(output, expected, scale=8)
    assert torch.equal(rfeatures, features.permute(0, 2, 3, 1))

    bottom_grad, mask_grad = torch.full_like(features, 7), torch.full_like(masks, 7)
    scratch = [torch.zeros_like(t) for t in (grad, grad, features, masks)]
    extension.carafe_backward(grad, rfeatures, masks, *scratch, bottom_grad, mask_grad, **settings)
    assert_matches(bottom_grad, features_slope, scale=8)
    assert_matches(mask_grad, masks_slope, scale=8)
