"""A wrong replacement of anything in this set, planted on purpose, turns a test red."""

from __future__ import annotations

import os

import pytest

from patcher_testing.faults import PlantedFaults

if "PATCHER_REFERENCE_TORCH_SCATTER" not in os.environ:
    pytest.skip("the tests of torch_scatter need the compiled reference", allow_module_level=True)


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
        "torch_scatter: torch_patches.portable_torch_scatter.scatter.worst_number": "no name of upstream's",
    }
