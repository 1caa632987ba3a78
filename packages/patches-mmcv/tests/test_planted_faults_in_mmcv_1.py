"""A wrong replacement of what only mmcv 1.x has, planted on purpose, turns a test red."""

from __future__ import annotations

import importlib.util

import pytest

from patcher_core import LibraryVersion
from patcher_testing.faults import PlantedFaults

MMCV = LibraryVersion("mmcv", "mmcv-full", is_v1x=">=1,<2", has_run_ddp_forward=">=1.6")

if not MMCV.is_v1x or importlib.util.find_spec("torchvision") is None:
    pytest.skip("mmcv 1.x and the torchvision it asks for are not installed here", allow_module_level=True)

IN_MMCV_2 = "it is in mmcv 2.x or mmengine as well: test_planted_faults.py"
OF_MMCV_1_6 = "MMDistributedDataParallel has no _run_ddp_forward before mmcv 1.6"


class TestPlantedFaultsInMmcv1(PlantedFaults):
    groups = "mmcv_patches:CATALOG"
    tests = ["test_device_neutral_operators.py", "test_mmcv_1_training.py"]
    modules = ["numpy", "torch", "mmcv.parallel", "mmcv.runner"]
    not_here = {
        "multi_scale_deformable_attention": IN_MMCV_2,
        "deform_conv": IN_MMCV_2,
        "modulated_deform_conv": IN_MMCV_2,
        "spconv3d": IN_MMCV_2,
        "voxelization": IN_MMCV_2,
        "sigmoid_focal_loss": IN_MMCV_2,
        "optimizer_wrapper": IN_MMCV_2,
        **({} if MMCV.has_run_ddp_forward else {"ddp": OF_MMCV_1_6}),
    }
    not_seen = {"mmcv_extension: *": IN_MMCV_2}
