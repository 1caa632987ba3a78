"""A wrong replacement of anything in this set, planted on purpose, turns a test red."""

from __future__ import annotations

import pytest

from patcher_core import LibraryVersion
from patcher_testing.faults import PlantedFaults

if not LibraryVersion("torch", has_halves=">=2.4").has_halves:
    pytest.skip("the tests of resnet_fp16 need torch 2.4", allow_module_level=True)

NPU = "it needs an NPU: npu/test_planted_faults_on_npu.py"
MMDET3D = "a patch of mmdet3d: mmdet3d/test_planted_faults_in_mmdet3d.py"


class TestPlantedFaults(PlantedFaults):
    groups = "mmdet_patches:CATALOG"
    tests = ("test_pseudo_sampler.py", "test_resnet_fp16.py")
    modules = ("torch", "mmdet")
    not_here = {
        "resnet_add_relu": NPU,
        "resnet_maxpool": NPU,
        "nuscenes_dataset": MMDET3D,
        "nuscenes_metric": MMDET3D,
    }
