"""A wrong replacement of anything in this set, planted on purpose, turns a test red: mmdet3d."""

from __future__ import annotations

from patcher_core import LibraryVersion
from patcher_testing.faults import PlantedFaults

MMDET = "a patch of mmdet: ../test_planted_faults.py"
NPU = "it needs an NPU: ../npu/test_planted_faults_on_npu.py"
HAS_METRIC = LibraryVersion("mmdet3d", has_metric=">=1.1.0").has_metric


class TestPlantedFaults(PlantedFaults):
    groups = "mmdet_patches:CATALOG"
    tests = ("test_nuscenes_dataset.py", "test_nuscenes_metric.py", "test_pseudo_sampler_3d.py")
    if not HAS_METRIC:  # where the samplers of mmdet 2.x are
        tests = (*tests, "../test_pseudo_sampler.py")
    modules = ("torch", "mmdet3d")
    not_here = {
        "resnet_fp16": MMDET,
        "resnet_add_relu": NPU,
        "resnet_maxpool": NPU,
        "nuscenes_dataset" if HAS_METRIC else "nuscenes_metric": "of another version of mmdet3d",
    }
    not_seen = {"pseudo_sampler: mmdet.models.task_modules.*": MMDET} if HAS_METRIC else {}
