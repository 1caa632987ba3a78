"""The life of the patch set on the installed mmcv: what patcher-testing asks of every set."""

from __future__ import annotations

import importlib.util

import pytest

for needed in ("patcher_testing", "mmcv"):
    if importlib.util.find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed in this environment", allow_module_level=True)

import mmcv_patches  # noqa: E402
from patcher_testing.contract import PatchSetContract  # noqa: E402

ONLY_1 = dict.fromkeys(("stream", "ddp", "optimizer_hooks"), "mmcv 1.x only")
ONLY_2 = {"optimizer_wrapper": "mmcv 1.x has no mmengine"}


class TestContract(PatchSetContract):
    groups = "mmcv_patches:ALL"
    libraries = ("mmcv",) if mmcv_patches.mmcv_version.is_v1x else ("mmcv", "mmengine")
    not_here = ONLY_2 if mmcv_patches.mmcv_version.is_v1x else ONLY_1
