"""A wrong replacement of anything in this set, planted on purpose, turns a test red."""

from __future__ import annotations

import pytest

from patcher_testing.faults import PlantedFaults

pytest.importorskip("torch", reason="most of these are patches of torch")


class TestPlantedFaults(PlantedFaults):
    groups = "torch_patches:CATALOG"
    tests = ["test_removed_names.py", "test_torch_scatter.py"]
    modules = ["numpy", "torch"]
    not_here = {
        "tensor_index": "it needs an NPU: npu/test_planted_faults_on_npu.py",
        "batch_matmul": "it needs an NPU: npu/test_planted_faults_on_npu.py",
        "npu_fused_adamw_step": "it needs an NPU: npu/test_planted_faults_on_npu.py",
    }
    not_seen = {
        "torch_scatter: torch_patches.portable_torch_scatter.scatter.shape_of_groups": "no name of upstream's",
    }
