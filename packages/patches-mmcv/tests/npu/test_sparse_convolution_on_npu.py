"""Sparse convolution on the simulated NPU: the values and gradients of the CPU, from the intended operators."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.simulated_npu(group="mmcv"), pytest.mark.usefixtures("random_seed")]

EXTENTS = [7, 6, 8]


def random_tensor(ops, channels: int = 4, extents=EXTENTS, fraction: float = 0.3):
    grid = torch.cartesian_prod(*map(torch.arange, (2, *extents)))
    cells = grid[torch.randperm(len(grid))[: int(len(grid) * fraction)]].int()
    return ops.SparseConvTensor(torch.randn(len(cells), channels), cells, list(extents), 2)


def on_npu(ops, tensor):
    return ops.SparseConvTensor(
        tensor.features.detach().npu(), tensor.indices.npu(), tensor.spatial_shape, tensor.batch_size
    )


def by_cell(tensor):
    """Features in the order of their cells: the order of outputs is not part of the result."""
    cells = tensor.indices.cpu().long()
    number = cells[:, 0]
    for axis, extent in enumerate(tensor.spatial_shape):
        number = number * extent + cells[:, 1 + axis]
    return tensor.features.cpu()[number.argsort()], cells[number.argsort()]


def compare(ops, simulated_npu, network, tensor):
    """Run on both devices, compare values and gradients, and give back what was recorded."""
    network_on_npu = copy.deepcopy(network).npu()
    npu_tensor = on_npu(ops, tensor)
    tensor.features.requires_grad_()
    npu_tensor.features.requires_grad_()
    npu_input, cpu_input = npu_tensor.features, tensor.features
    expected = network(tensor)
    with simulated_npu.record_operators() as recorded:
        found = network_on_npu(npu_tensor)
        (found_values, found_cells), (values, cells) = by_cell(found), by_cell(expected)
        assert torch.equal(found_cells, cells)
        assert found.spatial_shape == expected.spatial_shape
        torch.testing.assert_close(found_values, values, rtol=1e-4, atol=1e-4)
        weights = torch.randn_like(values)
        (found_values * weights).sum().backward()
    (values * weights).sum().backward()
    torch.testing.assert_close(npu_input.grad.cpu(), cpu_input.grad, rtol=1e-3, atol=1e-3)
    for own, reference in zip(network_on_npu.parameters(), network.parameters()):
        assert reference.grad.any()
        torch.testing.assert_close(own.grad.cpu(), reference.grad, rtol=1e-3, atol=1e-3)
    return recorded


def test_submanifold_strided_and_inverse_convolution_run_on_mx_driving(mmcv_ops, simulated_npu) -> None:
    network = mmcv_ops.SparseSequential(
        mmcv_ops.SubMConv3d(4, 8, 3, indice_key="first"),
        torch.nn.ReLU(),
        mmcv_ops.SubMConv3d(8, 8, 3, bias=False, indice_key="first"),
        mmcv_ops.SparseConv3d(8, 6, (3, 1, 3), stride=(2, 1, 2), padding=(1, 0, 1), indice_key="down"),
        mmcv_ops.SparseInverseConv3d(6, 5, (3, 1, 3), "down"),
    )
    recorded = compare(mmcv_ops, simulated_npu, network, random_tensor(mmcv_ops))
    recorded.assert_ran("npu_subm_sparse_conv3d_v3", times=2)
    recorded.assert_ran("npu_subm_sparse_conv3d_grad_v2", times=2)
    recorded.assert_ran("npu_sparse_conv3d", times=1)
    recorded.assert_ran("npu_sparse_conv3d_grad", times=1)
    recorded.assert_ran("npu_sparse_inverse_conv3d", times=1)


def test_a_module_built_from_the_registry_runs_on_mx_driving(mmcv_ops, simulated_npu) -> None:
    from mmengine.registry import MODELS

    convolution = MODELS.build({"type": "SubMConv3d", "in_channels": 4, "out_channels": 4, "kernel_size": 3})
    assert type(convolution) is mmcv_ops.SubMConv3d
    recorded = compare(mmcv_ops, simulated_npu, convolution, random_tensor(mmcv_ops))
    recorded.assert_ran("npu_subm_sparse_conv3d_v3", times=1)


def unsupported(ops):
    """What mx_driving does not take, each with a tensor for it."""
    return {
        "a flat submanifold kernel": (ops.SubMConv3d(4, 4, (1, 3, 3)), EXTENTS),
        "an even submanifold kernel": (ops.SubMConv3d(4, 4, 2), EXTENTS),
        "dilation": (ops.SparseConv3d(4, 4, 3, dilation=2, padding=2), EXTENTS),
        "a transposed convolution": (ops.SparseConvTranspose3d(4, 4, 3, stride=2), EXTENTS),
        "a kernel of one cell, which mmcv runs without its stride": (
            ops.SparseConv3d(4, 4, 1, stride=2),
            EXTENTS,
        ),
        "two axes": (ops.SubMConv2d(4, 4, 3), [7, 6]),
        "an inverse convolution whose couple did not run there": (
            ops.SparseSequential(
                ops.SparseConv3d(4, 4, 3, dilation=2, padding=2, indice_key="down"),
                ops.SparseInverseConv3d(4, 4, 3, indice_key="down"),
            ),
            EXTENTS,
        ),
    }


@pytest.mark.parametrize("case", range(7))
def test_what_mx_driving_does_not_take_is_done_in_plain_pytorch(mmcv_ops, simulated_npu, case) -> None:
    network, extents = [*unsupported(mmcv_ops).values()][case]
    recorded = compare(mmcv_ops, simulated_npu, network, random_tensor(mmcv_ops, extents=extents))
    assert not [name for name in recorded.counts if "sparse" in name]


def test_no_active_cell_at_all_gives_none(mmcv_ops, simulated_npu) -> None:
    tensor = mmcv_ops.SparseConvTensor(torch.zeros(0, 4).npu(), torch.zeros(0, 4).int().npu(), EXTENTS, 2)
    with simulated_npu.record_operators() as recorded:
        result = mmcv_ops.SubMConv3d(4, 5, 3).npu()(tensor)
    assert result.features.shape == (0, 5)
    assert not [name for name in recorded.counts if "sparse" in name]


def test_half_precision_stays_half_precision(mmcv_ops, simulated_npu) -> None:
    tensor = random_tensor(mmcv_ops)
    convolution = mmcv_ops.SubMConv3d(4, 5, 3, bias=False)
    expected = convolution(tensor).features
    half = mmcv_ops.SparseConvTensor(tensor.features.half().npu(), tensor.indices.npu(), EXTENTS, 2)
    with simulated_npu.record_operators() as recorded:
        found = convolution.half().npu()(half).features
    recorded.assert_ran("npu_subm_sparse_conv3d_v3", times=1)
    assert found.dtype == torch.float16
    torch.testing.assert_close(found.cpu().float(), expected, rtol=1e-2, atol=1e-2)
