"""Correlation against its definition with padded images and autograd, in float64."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from torch.nn import functional as F  # noqa: E402

#: shape, kernel, patch, padding, dilation, patch dilation, stride; each of them (rows, columns)
CASES = [
    ((2, 3, 6, 5), (1, 1), (3, 3), (0, 0), (1, 1), (1, 1), (1, 1)),
    ((1, 4, 9, 8), (3, 1), (5, 3), (1, 2), (2, 1), (2, 3), (2, 3)),
    ((2, 1, 7, 7), (3, 3), (3, 3), (4, 4), (1, 1), (5, 9), (1, 2)),
    ((1, 2, 1, 2), (1, 1), (1, 1), (0, 0), (1, 1), (1, 1), (1, 1)),
    ((0, 2, 4, 4), (1, 1), (3, 3), (0, 0), (1, 1), (1, 1), (1, 1)),
]
DTYPES = [torch.float64, torch.float32, torch.float16]


def correlate(first, second, case):
    """For each displacement, shift the second image, multiply, and sum over kernel and channels."""
    _, kernel, patch, padding, dilation, patch_dilation, stride = case
    margin = [d * (p - 1) // 2 for p, d in zip(patch, patch_dilation)]
    height, width = first.shape[2:]
    surrounded = F.pad(second, (margin[1], margin[1], margin[0], margin[0]))
    rows = []
    for p in range(patch[0]):
        for q in range(patch[1]):
            y, x = p * patch_dilation[0], q * patch_dilation[1]
            products = (first * surrounded[:, :, y : y + height, x : x + width]).sum(1, keepdim=True)
            ones = torch.ones(1, 1, *kernel, dtype=first.dtype)
            rows.append(F.conv2d(products, ones, stride=stride, padding=padding, dilation=dilation))
    return torch.cat(rows, 1).unflatten(1, patch)


def settings(case):
    _, kernel, patch, padding, dilation, patch_dilation, stride = case
    return {
        **dict(zip(("kH", "kW"), kernel)),
        **dict(zip(("patchH", "patchW"), patch)),
        **dict(zip(("padH", "padW"), padding)),
        **dict(zip(("dilationH", "dilationW"), dilation)),
        **dict(zip(("dilation_patchH", "dilation_patchW"), patch_dilation)),
        **dict(zip(("dH", "dW"), stride)),
    }


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES)
def test_correlation_and_gradients(extension, assert_matches, case, dtype):
    first, second = torch.randn(case[0]).to(dtype), torch.randn(case[0]).to(dtype)
    exact = first.double().requires_grad_(), second.double().requires_grad_()
    expected = correlate(*exact, case)
    grad = torch.randn(expected.shape).to(dtype)
    slopes = torch.autograd.grad(expected, exact, grad.double())

    output = torch.full_like(grad, 7)
    extension.correlation_forward(first, second, output, **settings(case))
    assert_matches(output, expected, scale=8)
    grad_first, grad_second = torch.full_like(first, 7), torch.full_like(second, 7)
    extension.correlation_backward(grad, first, second, grad_first, grad_second, **settings(case))
    assert_matches(grad_first, slopes[0], scale=16)
    assert_matches(grad_second, slopes[1], scale=16)
