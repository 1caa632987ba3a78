"""A wrong replacement of anything that this set does on an NPU, planted on purpose, turns a test red."""

from __future__ import annotations

import pytest

from patcher_testing.faults import PlantedFaults

pytest.importorskip("torch", reason="these are patches of libraries that use torch")

IN_MMCV_1 = "mmcv 2.x does not have what it replaces: ../test_planted_faults_in_mmcv_1.py"
WITHOUT_NPU = "the same on every device: ../test_planted_faults.py"


class TestPlantedFaultsOnNpu(PlantedFaults):
    groups = "mmcv_patches:CATALOG"
    tests = [
        "test_deform_conv_on_npu.py",
        "test_multi_scale_deformable_attention_on_npu.py",
        "test_sigmoid_focal_loss_on_npu.py",
        "test_sparse_convolution_on_npu.py::test_a_module_built_from_the_registry_runs_on_mx_driving",
        "test_voxelization_on_npu.py",
    ]
    on_npu = True
    modules = ["mmcv", "mmengine.runner", "mx_driving"]
    not_here = {"stream": IN_MMCV_1, "ddp": IN_MMCV_1, "optimizer_hooks": IN_MMCV_1}
    not_seen = {
        "mmcv_extension: *": WITHOUT_NPU,
        "device_neutral_operators: *": WITHOUT_NPU,
        "optimizer_wrapper: *": WITHOUT_NPU,
        "spconv3d: mmcv.ops.sparse_ops.ext_module by portable_operators": WITHOUT_NPU,
    }
