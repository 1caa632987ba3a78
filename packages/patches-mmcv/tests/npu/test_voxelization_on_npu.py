"""Voxelization on the simulated NPU: the voxels of the CPU, from the intended operators."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.simulated_npu(group="mmcv"), pytest.mark.usefixtures("random_seed")]

VOXEL_SIZE, RANGE = [0.5, 1.0, 2.0], [0.0, 0.0, 0.0, 4.0, 4.0, 4.0]


def random_points() -> torch.Tensor:
    """Some of them outside the range."""
    return torch.rand(200, 5) * 6 - 1


@pytest.mark.parametrize("max_voxels", [7, 1000])
def test_hard_voxelization_runs_on_mx_driving(mmcv_ops, simulated_npu, max_voxels) -> None:
    voxelize, points = mmcv_ops.Voxelization(VOXEL_SIZE, RANGE, 3, max_voxels), random_points()
    expected = voxelize(points)
    with simulated_npu.record_operators() as recorded:
        found = voxelize(points.npu())
    recorded.assert_ran("hard_voxelize", times=1)
    assert len(found) == len(expected) == 3
    for one_found, one_expected in zip(found, expected):
        assert one_found.device.type == "npu"
        assert one_found.dtype == one_expected.dtype
        assert torch.equal(one_found.cpu(), one_expected)


@pytest.mark.parametrize("limits", [(-1, -1), (-1, 20), (5, -1)])
def test_dynamic_voxelization_runs_on_mx_driving_and_marks_what_is_outside(
    mmcv_ops, simulated_npu, limits
) -> None:
    voxelize, points = mmcv_ops.Voxelization(VOXEL_SIZE, RANGE, *limits), random_points()
    expected = voxelize(points)
    assert (expected == -1).all(1).any()
    with simulated_npu.record_operators() as recorded:
        found = voxelize(points.npu())
    recorded.assert_ran("dynamic_voxelization", times=1)
    assert found.dtype == expected.dtype
    assert torch.equal(found.cpu(), expected)


@pytest.mark.parametrize("limits", [(-1, -1), (3, 100)])
@pytest.mark.parametrize("kind", ["no points", "half precision"])
def test_what_mx_driving_does_not_take_is_done_in_plain_pytorch(
    mmcv_ops, simulated_npu, kind, limits
) -> None:
    points = random_points()[:0] if kind == "no points" else random_points().half()
    voxelize = mmcv_ops.Voxelization(VOXEL_SIZE, RANGE, *limits)
    expected = voxelize(points)
    with simulated_npu.record_operators() as recorded:
        found = voxelize(points.npu())
    recorded.assert_did_not_run("hard_voxelize")
    recorded.assert_did_not_run("dynamic_voxelization")
    for one_found, one_expected in zip(
        *((result,) if torch.is_tensor(result) else result for result in (found, expected))
    ):
        assert torch.equal(one_found.cpu(), one_expected)
