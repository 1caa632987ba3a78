"""The life cycle of the set, where mmdet and mmdet3d are installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from patcher_core import check_version
from patcher_testing.contract import PatchSetContract

NEEDS_NPU = "needs an NPU"


class TestContract(PatchSetContract):
    groups = "operators_and_mmdet_patches:ALL"
    libraries = ("mmdet", "mmdet3d")
    imported_first = ("torch", "cv2", "matplotlib.pyplot", "numba", "pandas", "scipy.stats")
    not_here = {  # noqa: RUF012
        "resnet_add_relu": NEEDS_NPU,
        "resnet_maxpool": NEEDS_NPU,
        **(
            {"nuscenes_dataset": "for mmdet3d before 1.1"}
            if check_version("mmdet", 3)
            else {"nuscenes_metric": "for mmdet3d since 1.1"}
        ),
    }

    @pytest.fixture(autouse=True)
    def groups_are_importable(self, monkeypatch) -> None:
        monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "support"))
