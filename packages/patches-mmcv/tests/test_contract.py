"""The life of the patch set on the installed mmcv: what patcher-testing asks of every set."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

for needed in ("patcher_testing", "mmcv"):
    if importlib.util.find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed in this environment", allow_module_level=True)

import mmcv_patches  # noqa: E402
from patcher_testing.contract import PatchSetContract  # noqa: E402

ONLY_1 = dict.fromkeys(("stream", "ddp", "optimizer_hooks"), "mmcv 1.x only")


def not_in_this_mmcv_1() -> dict[str, str]:
    """What the installed mmcv 1.x lacks, looked up in its files; to import it is part of what is tested."""
    from torch.nn.parallel import DistributedDataParallel

    folder = Path(importlib.util.find_spec("mmcv").origin).parent
    lacking = {"optimizer_wrapper": "mmcv 1.x has no mmengine"}
    if not (folder / "ops" / "sparse_ops.py").is_file():
        lacking["spconv3d"] = "mmcv before 1.5 has no sparse convolution"
    own = "_run_ddp_forward" in (folder / "parallel" / "distributed.py").read_text(encoding="utf-8")
    if not own and not hasattr(DistributedDataParallel, "_run_ddp_forward"):
        lacking["ddp"] = "neither this mmcv nor torch before 1.12 has _run_ddp_forward"
    return lacking


class TestContract(PatchSetContract):
    groups = "mmcv_patches:ALL"
    libraries = ("mmcv",) if mmcv_patches.mmcv_version.is_v1x else ("mmcv", "mmengine")
    imported_first = ("torch", "cv2")
    not_here = not_in_this_mmcv_1() if mmcv_patches.mmcv_version.is_v1x else ONLY_1
