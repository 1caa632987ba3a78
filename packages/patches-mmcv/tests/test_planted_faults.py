"""A wrong replacement of anything in this set, planted on purpose, turns a test red."""

from __future__ import annotations

from pathlib import Path
from typing import Collection

import pytest

from patcher_testing.faults import PlantedFaults

pytest.importorskip("torch", reason="these are patches of libraries that use torch")

IN_MMCV_1 = "mmcv 2.x does not have what it replaces: test_planted_faults_in_mmcv_1.py"


def files_in(folder: str, without: Collection[str]) -> list[str]:
    """The test files of a folder beside this file, relative to it."""
    files = Path(__file__).with_name(folder).glob("test_*.py")
    return sorted(f"{folder}/{file.name}" for file in files if file.name not in without)


class TestPlantedFaults(PlantedFaults):
    groups = "mmcv_patches:CATALOG"
    tests = [
        *files_in(
            "extension", without=["test_earlier_signatures.py", "test_extension_module.py", "test_memory.py"]
        ),
        "test_deform_conv.py",
        "test_device_neutral_operators.py",
        "test_multi_scale_deformable_attention.py",
        "test_optimizer_wrapper.py",
        "test_point_cloud_patches.py::test_portable_sparse_convolution_is_the_sum_over_the_pairs_of_a_given_rule_book",
        "test_point_cloud_patches.py::test_portable_voxelization_is_a_loop_over_the_points",
        "test_sigmoid_focal_loss.py",
    ]
    modules = ["numpy", "torch", "mmcv", "mmengine.runner"]
    not_here = {"stream": IN_MMCV_1, "ddp": IN_MMCV_1, "optimizer_hooks": IN_MMCV_1}
