"""A wrong replacement of what only mmcv 1.x has, planted on purpose, turns a test red."""

from __future__ import annotations

import importlib.util

import pytest

from mmcv_patches import mmcv_version
from patcher_testing.faults import PlantedFaults

if not mmcv_version.is_v1x or importlib.util.find_spec("torchvision") is None:
    pytest.skip("mmcv 1.x and the torchvision it asks for are not installed here", allow_module_level=True)

IN_MMCV_2 = "it is in mmcv 2.x or mmengine as well: test_planted_faults.py"


class TestPlantedFaultsInMmcv1(PlantedFaults):
    groups = "mmcv_patches:CATALOG"
    tests = ["test_mmcv_1_training.py"]
    modules = ["numpy", "torch", "mmcv.parallel", "mmcv.runner"]
    not_here = {
        "mmcv_extension": IN_MMCV_2,
        "device_neutral_operators": IN_MMCV_2,
        "multi_scale_deformable_attention": IN_MMCV_2,
        "deform_conv": IN_MMCV_2,
        "modulated_deform_conv": IN_MMCV_2,
        "spconv3d": IN_MMCV_2,
        "voxelization": IN_MMCV_2,
        "sigmoid_focal_loss": IN_MMCV_2,
        "optimizer_wrapper": IN_MMCV_2,
    }
