"""Sparse convolution equals torch's dense convolution of the same cells, values and gradients.

A dense tensor that is zero except at the active cells, convolved densely, is the reference: it knows no rule
book. Submanifold convolution is the dense one read at the active inputs only.
"""

from __future__ import annotations

import itertools
import math
import types
from typing import NamedTuple

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional

DENSE = {2: F.conv2d, 3: F.conv3d}
DENSE_TRANSPOSED = {2: F.conv_transpose2d, 3: F.conv_transpose3d}


class Case(NamedTuple):
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]


CASES = [
    Case((3, 3), (1, 1), (1, 1), (1, 1)),
    Case((3, 2), (2, 1), (0, 1), (1, 2)),
    Case((3, 3, 3), (2, 2, 2), (1, 1, 1), (1, 1, 1)),
    Case((3, 1, 1), (2, 1, 1), (0, 0, 0), (1, 1, 1)),
    Case((2, 3, 5), (1, 2, 1), (0, 1, 2), (2, 1, 1)),
    Case((1, 1, 1), (3, 2, 1), (0, 0, 0), (1, 1, 1)),
]
EXTENTS = {2: (9, 7), 3: (7, 6, 8), 4: (4, 3, 5, 4)}


def random_cells(axes: int, samples: int = 2, fraction: float = 0.2) -> torch.Tensor:
    grid = torch.cartesian_prod(*map(torch.arange, (samples, *EXTENTS[axes])))
    return grid[torch.randperm(len(grid))[: int(len(grid) * fraction)]].int()


def densify(values: torch.Tensor, cells: torch.Tensor, extents, samples: int = 2) -> torch.Tensor:
    """(N, C) at cells -> (samples, C, *extents), differentiable."""
    dense = values.new_zeros(samples, *extents, values.shape[1])
    dense = dense.index_put(tuple(cells.long().unbind(1)), values)
    return dense.movedim(-1, 1)


def read(dense: torch.Tensor, cells: torch.Tensor) -> torch.Tensor:
    return dense.movedim(1, -1)[tuple(cells.long().unbind(1))]


def as_dense_weight(filters: torch.Tensor) -> torch.Tensor:
    """(*kernel, in, out) -> (out, in, *kernel)."""
    return filters.movedim((-1, -2), (0, 1))


def rule_book(extension, cells, out_extents, case, submanifold=False, transposed=False, samples=2):
    axes = cells.shape[1] - 1
    function = getattr(extension, f"get_indice_pairs_{axes}d_forward")
    settings = (case.kernel, case.stride, case.padding, case.dilation, (0,) * axes)
    return function(
        cells, samples, out_extents, EXTENTS[axes], *map(list, settings), int(submanifold), int(transposed)
    )


def out_extents_of(case: Case, axes: int) -> tuple[int, ...]:
    return tuple(
        (extent + 2 * p - d * (k - 1) - 1) // s + 1
        for extent, k, s, p, d in zip(EXTENTS[axes], case.kernel, case.stride, case.padding, case.dilation)
    )


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_rule_book_lists_exactly_the_pairs_of_the_definition(extension, case: Case) -> None:
    axes = len(case.kernel)
    cells, extents = random_cells(axes), out_extents_of(case, axes)
    outputs, pairs, counts = rule_book(extension, cells, extents, case)
    expected = set()
    for offset, position in enumerate(itertools.product(*map(range, case.kernel))):
        for number, (sample, *cell) in enumerate(cells.tolist()):
            reached = [c + p - k * d for c, p, k, d in zip(cell, case.padding, position, case.dilation)]
            output = [r // s for r, s in zip(reached, case.stride)]
            if all(r % s == 0 for r, s in zip(reached, case.stride)) and all(
                0 <= o < e for o, e in zip(output, extents)
            ):
                expected.add((offset, number, sample, *output))
    found = {
        (offset, int(source), *outputs[int(target)].tolist())
        for offset, count in enumerate(counts.tolist())
        for source, target in pairs[offset, :, :count].t()
    }
    assert found == expected
    assert counts.sum() == len(expected)
    assert outputs.tolist() == sorted(map(list, {row[2:] for row in expected}))
    assert outputs.dtype == pairs.dtype == counts.dtype == torch.int32
    for offset, count in enumerate(counts.tolist()):
        assert (pairs[offset, :, count:] == -1).all()
        assert pairs[offset, 0, :count].tolist() == sorted(pairs[offset, 0, :count].tolist())


def compare_with_dense(extension, features, filters, book, expected_at, inverse=0, submanifold=0) -> None:
    """Values and gradients against ``expected_at(features, filters)``, which autograd differentiates."""
    outputs, pairs, counts = book
    features.requires_grad_()
    filters.requires_grad_()
    expected = expected_at(features, filters)
    ours = extension.indice_conv_forward(
        features, filters, pairs, counts, outputs.shape[0], int(inverse), int(submanifold)
    )
    torch.testing.assert_close(ours, expected.detach())
    upstream = torch.randn_like(expected)
    reference = torch.autograd.grad(expected, (features, filters), upstream)
    gradients = extension.indice_conv_backward(
        features, filters, upstream, pairs, counts, int(inverse), int(submanifold)
    )
    for gradient, wanted in zip(gradients, reference):
        torch.testing.assert_close(gradient, wanted)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_convolution_equals_the_dense_one(extension, case: Case) -> None:
    axes = len(case.kernel)
    cells, extents = random_cells(axes), out_extents_of(case, axes)
    book = rule_book(extension, cells, extents, case)

    def dense(features, filters):
        result = DENSE[axes](
            densify(features, cells, EXTENTS[axes]), as_dense_weight(filters), None, *case[1:]
        )
        assert tuple(result.shape[2:]) == extents
        everywhere_else = torch.ones(2, *extents, dtype=torch.bool)
        everywhere_else[tuple(book[0].long().unbind(1))] = False
        assert not result.movedim(1, -1)[everywhere_else].any()
        return read(result, book[0])

    features = torch.randn(len(cells), 4, dtype=torch.float64)
    compare_with_dense(extension, features, torch.randn(*case.kernel, 4, 5, dtype=torch.float64), book, dense)


@pytest.mark.parametrize("kernel", [(3, 3), (1, 3), (2, 3), (3, 3, 3), (5, 3, 1), (2, 4, 3)])
def test_submanifold_convolution_equals_the_dense_one_at_the_inputs(extension, kernel) -> None:
    axes = len(kernel)
    cells = random_cells(axes)
    strides_are_ignored = Case(kernel, (2,) * axes, (7,) * axes, (1,) * axes)
    book = rule_book(extension, cells, EXTENTS[axes], strides_are_ignored, submanifold=True)
    assert book[0] is cells

    def dense(features, filters):
        padding = [extent // 2 for extent in kernel]
        result = DENSE[axes](
            densify(features, cells, EXTENTS[axes]), as_dense_weight(filters), None, 1, padding
        )
        return read(result, cells)

    features = torch.randn(len(cells), 4, dtype=torch.float64)
    filters = torch.randn(*kernel, 4, 5, dtype=torch.float64)
    compare_with_dense(extension, features, filters, book, dense, submanifold=True)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_transposed_convolution_equals_the_dense_one(extension, case: Case) -> None:
    axes = len(case.kernel)
    extents = tuple(
        (extent - 1) * s - 2 * p + d * (k - 1) + 1
        for extent, k, s, p, d in zip(EXTENTS[axes], case.kernel, case.stride, case.padding, case.dilation)
    )
    cells = random_cells(axes)
    book = rule_book(extension, cells, extents, case, transposed=True)

    def dense(features, filters):
        weight = filters.movedim((-2, -1), (0, 1))
        result = DENSE_TRANSPOSED[axes](
            densify(features, cells, EXTENTS[axes]),
            weight,
            None,
            case.stride,
            case.padding,
            dilation=case.dilation,
        )
        assert tuple(result.shape[2:]) == extents
        return read(result, book[0])

    features = torch.randn(len(cells), 4, dtype=torch.float64)
    compare_with_dense(extension, features, torch.randn(*case.kernel, 4, 5, dtype=torch.float64), book, dense)


@pytest.mark.parametrize("case", [CASES[1], CASES[2]], ids=str)
def test_inverse_convolution_goes_back_from_the_outputs_of_its_couple(extension, case: Case) -> None:
    axes = len(case.kernel)
    cells, extents = random_cells(axes), out_extents_of(case, axes)
    outputs, pairs, counts = rule_book(extension, cells, extents, case)

    def dense(features, filters):
        """Transposed convolution to the input's extents, read at the inputs."""
        missing = [
            own - ((out - 1) * s - 2 * p + d * (k - 1) + 1)
            for own, out, k, s, p, d in zip(EXTENTS[axes], extents, *case)
        ]
        result = DENSE_TRANSPOSED[axes](
            densify(features, outputs, extents),
            filters.movedim((-2, -1), (0, 1)),
            None,
            case.stride,
            case.padding,
            missing,
            dilation=case.dilation,
        )
        return read(result, cells)

    features = torch.randn(len(outputs), 4, dtype=torch.float64)
    filters = torch.randn(*case.kernel, 4, 5, dtype=torch.float64)
    compare_with_dense(extension, features, filters, (cells, pairs, counts), dense, inverse=True)


def test_a_convolution_over_four_axes_equals_its_sum_over_three(extension) -> None:
    """Four axes have no dense function: each place of the kernel's first axis is a dense 3D convolution."""
    case = Case((3, 3, 3, 3), (1, 1, 1, 1), (1, 1, 1, 1), (1, 1, 1, 1))
    cells = random_cells(4)
    book = rule_book(extension, cells, EXTENTS[4], case)
    # through the middle of the kernel every cell goes to itself
    assert int(book[2][len(book[2]) // 2]) == len(cells)

    def dense(features, filters):
        whole = F.pad(densify(features, cells, EXTENTS[4]), (0, 0, 0, 0, 0, 0, 1, 1))
        weight = as_dense_weight(filters)
        slices = [
            sum(F.conv3d(whole[:, :, place + k], weight[:, :, k], None, 1, 1) for k in range(3))
            for place in range(EXTENTS[4][0])
        ]
        return read(torch.stack(slices, 2), book[0])

    features = torch.randn(len(cells), 3, dtype=torch.float64)
    compare_with_dense(extension, features, torch.randn(3, 3, 3, 3, 3, 2, dtype=torch.float64), book, dense)


@pytest.mark.parametrize("axes", [2, 3])
def test_a_lent_grid_changes_nothing_and_is_not_changed(extension, axes) -> None:
    cells, extents = random_cells(axes), EXTENTS[axes]
    grid = torch.full((2 * math.prod(extents),), -1, dtype=torch.int32)
    plain_function, lent_function = (
        getattr(extension, f"get_indice_pairs_{axes}d_{direction}") for direction in ("forward", "backward")
    )
    for submanifold in (0, 1):
        settings = ((3,) * axes, (1,) * axes, (1,) * axes, (1,) * axes, (0,) * axes)
        plain = plain_function(cells, 2, extents, extents, *settings, submanifold, 0)
        lent = lent_function(cells, grid, 2, extents, extents, *settings, submanifold, 0)
        for own, other in zip(plain, lent):
            assert torch.equal(own, other)
    assert (grid == -1).all()


def test_a_function_for_another_number_of_axes_says_so(extension) -> None:
    with pytest.raises(ValueError, match=r"get_indice_pairs_2d_forward is for 2 axes.*call the function for"):
        extension.get_indice_pairs_2d_forward(
            random_cells(3), 2, [7, 6, 8], [7, 6, 8], [3] * 3, [1] * 3, [1] * 3, [1] * 3, [0] * 3, 0, 0
        )


def test_no_active_cell_gives_no_output(extension) -> None:
    cells = torch.zeros(0, 4, dtype=torch.int32)
    for submanifold in (False, True):
        outputs, pairs, counts = rule_book(extension, cells, EXTENTS[3], CASES[2], submanifold)
        assert (tuple(outputs.shape), tuple(pairs.shape), int(counts.sum())) == ((0, 4), (27, 2, 0), 0)
        filters = torch.randn(3, 3, 3, 4, 5)
        result = extension.indice_conv_forward(torch.zeros(0, 4), filters, pairs, counts, 0, 0, submanifold)
        assert result.shape == (0, 5)
        gradients = extension.indice_conv_backward(
            torch.zeros(0, 4), filters, result, pairs, counts, 0, submanifold
        )
        assert [tuple(g.shape) for g in gradients] == [(0, 4), (3, 3, 3, 4, 5)]


@pytest.mark.parametrize("submanifold", [False, True])
def test_the_fused_convolution_adds_its_bias(extension, submanifold: bool) -> None:
    cells = random_cells(3)
    case = Case((3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1))
    outputs, pairs, counts = rule_book(extension, cells, EXTENTS[3], case, submanifold)
    features, filters, bias = torch.randn(len(cells), 4), torch.randn(3, 3, 3, 4, 5), torch.randn(5)
    arguments = (pairs, counts, len(outputs), 0, int(submanifold))
    fused = extension.fused_indice_conv_forward(features, filters, bias, *arguments)
    torch.testing.assert_close(
        fused, extension.indice_conv_forward(features, filters, *arguments) + bias, rtol=1e-4, atol=1e-4
    )


def test_half_precision_convolution_is_near_the_exact_one(extension) -> None:
    cells = random_cells(3)
    outputs, pairs, counts = rule_book(extension, cells, EXTENTS[3], CASES[2])
    features, filters = torch.randn(len(cells), 16).half(), torch.randn(3, 3, 3, 16, 8).half()
    half = extension.indice_conv_forward(features, filters, pairs, counts, len(outputs), 0, 0)
    exact = extension.indice_conv_forward(
        features.double(), filters.double(), pairs, counts, len(outputs), 0, 0
    )
    assert half.dtype == torch.float16
    torch.testing.assert_close(half.double(), exact, rtol=1e-2, atol=5e-2)


@pytest.mark.parametrize("case", [CASES[1], CASES[2]], ids=str)
def test_max_pooling_equals_the_dense_one_over_zeros(extension, case: Case) -> None:
    """Inactive cells are zero in the dense tensor, so a window's maximum is zero at least."""
    axes = len(case.kernel)
    cells, extents = random_cells(axes), out_extents_of(case, axes)
    outputs, pairs, counts = rule_book(extension, cells, extents, case)
    features = torch.randn(len(cells), 6, dtype=torch.float64, requires_grad=True)
    dense = densify(features, cells, EXTENTS[axes])
    padded = F.pad(dense, [side for p in reversed(case.padding) for side in (p, p)])
    for axis, (kernel, stride, dilation) in enumerate(zip(case.kernel, case.stride, case.dilation)):
        windows = padded.unfold(2 + axis, dilation * (kernel - 1) + 1, stride)
        padded = windows[..., ::dilation].amax(-1)
    expected = read(padded, outputs).clamp(min=0)
    pooled = extension.indice_maxpool_forward(features, pairs, counts, len(outputs))
    torch.testing.assert_close(pooled, expected.detach())
    upstream = torch.randn_like(pooled)
    (reference,) = torch.autograd.grad(expected, features, upstream)
    ours = extension.indice_maxpool_backward(features, pooled, upstream, pairs, counts)
    torch.testing.assert_close(ours, reference)


def test_the_gradient_of_a_tied_maximum_goes_to_every_input_that_attains_it(extension) -> None:
    cells = torch.tensor([[0, 0, 0], [0, 0, 1]], dtype=torch.int32)
    _, pairs, counts = extension.get_indice_pairs_2d_forward(
        cells, 1, [1, 1], [1, 2], [1, 2], [1, 1], [0, 0], [1, 1], [0, 0], 0, 0
    )
    features = torch.tensor([[3.0, -1], [3, -2]])
    pooled = extension.indice_maxpool_forward(features, pairs, counts, 1)
    assert pooled.tolist() == [[3, 0]]
    gradient = extension.indice_maxpool_backward(features, pooled, torch.tensor([[1.0, 1]]), pairs, counts)
    assert gradient.tolist() == [[1, 0], [1, 0]]


def test_a_network_of_mmcv_modules_equals_its_dense_counterpart(mmcv_ops: types.ModuleType) -> None:
    """Submanifold, strided and inverse convolution through mmcv's own modules, forward and backward."""
    cells = random_cells(3, fraction=0.3)
    features = torch.randn(len(cells), 4, requires_grad=True)
    network = mmcv_ops.SparseSequential(
        mmcv_ops.SubMConv3d(4, 8, 3, indice_key="first"),
        torch.nn.ReLU(),
        mmcv_ops.SparseConv3d(8, 6, 3, stride=2, padding=1, indice_key="down"),
        mmcv_ops.SparseInverseConv3d(6, 5, 3, indice_key="down"),
    )
    result = network(mmcv_ops.SparseConvTensor(features, cells, list(EXTENTS[3]), 2))
    assert torch.equal(result.indices, cells)

    first, _, down, up = network
    mask = densify(torch.ones(len(cells), 1), cells, EXTENTS[3])
    dense = F.conv3d(
        densify(features, cells, EXTENTS[3]), as_dense_weight(first.weight), first.bias, padding=1
    )
    dense = F.relu(dense) * mask
    touched = F.conv3d(mask, torch.ones(1, 1, 3, 3, 3), None, 2, 1) > 0
    dense = F.conv3d(dense, as_dense_weight(down.weight), down.bias, 2, 1) * touched
    dense = F.conv_transpose3d(dense, up.weight.movedim((-2, -1), (0, 1)), up.bias, 2, 1, (0, 1, 1))
    expected = read(dense, cells)
    torch.testing.assert_close(result.features, expected, rtol=1e-4, atol=1e-4)
    upstream = torch.randn_like(expected)
    weights = (features, *network.parameters())
    ours = torch.autograd.grad(result.features, weights, upstream, retain_graph=True)
    reference = torch.autograd.grad(expected, weights, upstream)
    for gradient, wanted in zip(ours, reference):
        torch.testing.assert_close(gradient, wanted, rtol=1e-3, atol=1e-3)
