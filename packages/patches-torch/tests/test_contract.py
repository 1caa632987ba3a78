"""The life of every patch of this set, each part in a fresh process; on a CPU, so without those that need an NPU."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the set patches torch")

from patcher_testing.contract import PatchSetContract

NEEDS_AN_NPU = "it replaces a kernel or an operator of the NPU"


class TestContract(PatchSetContract):
    groups = "torch_patches:ALL" if sys.version_info >= (3, 10) else "groups_before_python_3_10:GROUPS"
    libraries = ("torch", "numpy", "torch_scatter")
    not_here = {  # noqa: RUF012
        "tensor_index": NEEDS_AN_NPU,
        "batch_matmul": NEEDS_AN_NPU,
        "npu_fused_adamw_step": NEEDS_AN_NPU,
    }

    @pytest.fixture(autouse=True)
    def groups_are_importable(self, monkeypatch) -> None:
        monkeypatch.syspath_prepend(str(Path(__file__).parent / "support"))
