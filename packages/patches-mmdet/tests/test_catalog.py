"""What the package says of itself."""

from __future__ import annotations

import subprocess
import sys

import pytest

import mmdet_patches
from mmdet_patches import NuScenesDataset, ResNetFP16, ResNetMaxPool
from patcher_core import Patcher


def test_importing_it_imports_none_of_the_libraries() -> None:
    code = (
        "import sys, mmdet_patches;"
        "sys.exit(any(name in sys.modules for name in ('torch', 'numpy', 'mmdet', 'mmdet3d', 'nuscenes', 'mmcv')))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_the_lists_hold_what_the_catalogue_promises() -> None:
    names = {patch.name: patch.legacy_name for patch in mmdet_patches.CATALOG}
    assert names == {
        "pseudo_sampler": "pseudo_sampler",
        "resnet_add_relu": "resnet_add_relu",
        "resnet_maxpool": "resnet_maxpool",
        "resnet_fp16": "resnet_fp16",
        "nuscenes_dataset": "nuscenes_dataset",
        "nuscenes_metric": "nuscenes_metric",
    }
    assert mmdet_patches.LEGACY == mmdet_patches.CATALOG
    assert {patch.name for patch in mmdet_patches.DEFAULT} == {
        "resnet_add_relu",
        "resnet_maxpool",
        "nuscenes_dataset",
        "nuscenes_metric",
    }
    assert mmdet_patches.NuScenes is NuScenesDataset


def test_everything_in_all_can_be_enabled_together() -> None:
    Patcher().add(*mmdet_patches.ALL).apply().restore()


def test_two_patches_of_one_method_are_refused_and_each_line_that_is_offered_solves_it() -> None:
    with pytest.raises(ValueError, match="cannot be enabled together") as refusal:
        Patcher().add(ResNetMaxPool, ResNetFP16).apply()
    lines = [line.strip() for line in str(refusal.value).splitlines() if line.strip().startswith("patcher.")]
    assert lines == ["patcher.disable('resnet_maxpool')", "patcher.disable('resnet_fp16')"]
    for line in lines:
        patcher = Patcher().add(ResNetMaxPool, ResNetFP16)
        exec(line, {"patcher": patcher})
        patcher.apply().restore()
