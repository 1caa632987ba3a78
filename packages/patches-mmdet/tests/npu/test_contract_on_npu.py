"""The life cycle of the set on the simulated NPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from patcher_testing.contract import PatchSetContract


class TestContract(PatchSetContract):
    groups = "operators_and_mmdet_patches:ALL"
    libraries = ("mmdet",)
    # the last is mx_driving's
    imported_first = ("cv2", "matplotlib.pyplot", "scipy.stats", "torch._inductor.compile_fx")
    on_npu = True
    not_here = {  # noqa: RUF012
        "nuscenes_dataset": "mmdet3d is not installed here",
        "nuscenes_metric": "mmdet3d is not installed here",
    }

    @pytest.fixture(autouse=True)
    def groups_are_importable(self, monkeypatch) -> None:
        monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "support"))
