"""Active rotating filters against the compiled function and by the definition."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

#: out planes, in planes, orientations, height, width, rotations
CASES = [(3, 2, 8, 3, 3, 8), (2, 5, 1, 1, 3, 4), (1, 1, 1, 1, 1, 1), (0, 2, 2, 3, 3, 4)]
DTYPES = [torch.float64, torch.float32, torch.float16]


def tensors(case, dtype):
    out_planes, in_planes, orientations, height, width, rotations = case
    entries = orientations * height * width
    filters = torch.randn(out_planes, in_planes, orientations, height, width).to(dtype)
    order = torch.stack([torch.randperm(entries) + 1 for _ in range(rotations)], 1)
    indices = order.view(orientations, height, width, rotations).int()
    rotated = torch.randn(out_planes * rotations, in_planes * orientations, height, width).to(dtype)
    return filters, indices, rotated


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES)
def test_every_entry_moves_to_its_place_and_its_gradients_back(extension, assert_matches, case, dtype):
    out_planes, in_planes, *_, rotations = case
    filters, indices, grad = tensors(case, dtype)
    order = indices.view(-1, rotations).long() - 1
    entries = len(order)
    flat_grad = grad.view(out_planes, rotations, in_planes, entries)
    expected = torch.empty_like(flat_grad)
    expected_grad = torch.zeros(out_planes, in_planes, entries, dtype=torch.float64)
    for entry in range(entries):
        for rotation in range(rotations):
            place = order[entry, rotation]
            expected[:, rotation, :, place] = filters.view(out_planes, in_planes, entries)[..., entry]
            expected_grad[..., entry] += flat_grad[:, rotation, :, place].double()

    output, grad_in = torch.zeros_like(grad), torch.full_like(filters, 7)
    extension.active_rotated_filter_forward(filters, indices, output)
    extension.active_rotated_filter_backward(grad, indices, grad_in)
    assert torch.equal(output, expected.view_as(output))
    assert_matches(grad_in, expected_grad.view_as(grad_in), scale=4)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES)
def test_active_rotated_filter_equals_the_compiled_one(extension, compiled, case, dtype):
    filters, indices, grad = tensors(case, dtype)
    results = []
    for module in (extension, compiled):
        output, grad_in = torch.zeros_like(grad), torch.full_like(filters, 7)
        module.active_rotated_filter_forward(input=filters, indices=indices, output=output)
        module.active_rotated_filter_backward(grad_out=grad, indices=indices, grad_in=grad_in)
        results.append((output, grad_in))
    (ours, our_grad), (theirs, their_grad) = results
    assert torch.equal(ours, theirs)
    torch.testing.assert_close(our_grad, their_grad)
