"""PSA masks against the compiled function, and against its definition pixel by pixel."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

#: batch, height, width, mask height, mask width
CASES = [(2, 3, 4, 3, 5), (1, 5, 3, 9, 9), (1, 4, 4, 2, 6), (1, 1, 1, 1, 1), (0, 3, 3, 3, 3)]


def settings(case, psa_type):
    batch, height, width, mask_height, mask_width = case
    return {
        "psa_type": psa_type,
        "num_": batch,
        "h_feature": height,
        "w_feature": width,
        "h_mask": mask_height,
        "w_mask": mask_width,
        "half_h_mask": (mask_height - 1) // 2,
        "half_w_mask": (mask_width - 1) // 2,
    }


def tensors(case, dtype):
    batch, height, width, mask_height, mask_width = case
    masks = torch.randn(batch, mask_height * mask_width, height, width).to(dtype)
    pairs = torch.randn(batch, height * width, height, width).to(dtype)
    return masks, pairs


def pixel_by_pixel(case, psa_type):
    """(mask entry, pixel, row of the output, column of the output) of every pair that exists."""
    _, height, width, mask_height, mask_width = case
    for h in range(height):
        for w in range(width):
            for i in range(mask_height):
                for j in range(mask_width):
                    other_h, other_w = h + i - (mask_height - 1) // 2, w + j - (mask_width - 1) // 2
                    if 0 <= other_h < height and 0 <= other_w < width:
                        pixel, other = (h, w), (other_h, other_w)
                        first, second = (other, pixel) if psa_type == 0 else (pixel, other)
                        yield i * mask_width + j, pixel, first[0] * width + first[1], second


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize("psa_type", [0, 1])
@pytest.mark.parametrize("case", CASES)
def test_psamask_and_gradient(extension, case, psa_type, dtype):
    masks, pairs = tensors(case, dtype)
    expected, expected_grad = torch.zeros_like(pairs), torch.zeros_like(masks)
    for entry, (h, w), row, (y, x) in pixel_by_pixel(case, psa_type):
        expected[:, row, y, x] = masks[:, entry, h, w]
        expected_grad[:, entry, h, w] = pairs[:, row, y, x]

    output, grad = torch.zeros_like(pairs), torch.zeros_like(masks)
    extension.psamask_forward(masks, output, **settings(case, psa_type))
    extension.psamask_backward(pairs, grad, **settings(case, psa_type))
    assert torch.equal(output, expected)
    assert torch.equal(grad, expected_grad)


@pytest.mark.parametrize("psa_type", [0, 1])
@pytest.mark.parametrize("case", CASES[:4])
def test_psamask_equals_the_compiled_one(extension, compiled, case, psa_type):
    masks, pairs = tensors(case, torch.float32)
    results = []
    for module in (extension, compiled):
        output, grad = torch.full_like(pairs, 7), torch.full_like(masks, 7)
        module.psamask_forward(masks, output, **settings(case, psa_type))
        module.psamask_backward(pairs, grad, **settings(case, psa_type))
        results.append((output, grad))
    (ours, our_grad), (theirs, their_grad) = results
    assert torch.equal(ours, theirs) and torch.equal(our_grad, their_grad)
