"""A wrong replacement of anything in this set, planted on purpose, turns a test red on the simulated NPU."""

from __future__ import annotations

from patcher_testing.faults import PlantedFaults

MMDET3D = "a patch of mmdet3d: ../mmdet3d/test_planted_faults_in_mmdet3d.py"
ANYWHERE = "it does not need an NPU: ../test_planted_faults.py"


class TestPlantedFaults(PlantedFaults):
    groups = "mmdet_patches:CATALOG"
    tests = ("test_resnets_on_npu.py",)
    on_npu = True
    not_here = {"nuscenes_dataset": MMDET3D, "nuscenes_metric": MMDET3D, "pseudo_sampler": ANYWHERE}
    not_seen = {"resnet_fp16: *": ANYWHERE}
