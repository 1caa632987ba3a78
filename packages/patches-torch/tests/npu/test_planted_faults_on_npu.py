"""A wrong replacement of what needs an NPU, planted on purpose, turns a test red on the simulated one."""

from __future__ import annotations

from patcher_testing.faults import PlantedFaults

ANYWHERE = "it does not need an NPU: ../test_planted_faults.py"


class TestPlantedFaults(PlantedFaults):
    groups = "torch_patches:CATALOG"
    tests = (
        "test_batch_matmul.py",
        "test_fused_adamw.py",
        "test_numbers_on_npu.py",
        "test_tensor_index.py",
        "test_torch_scatter_on_npu.py",
    )
    on_npu = True
    not_here = {"numpy_compat": ANYWHERE, "collections_compat": ANYWHERE}
    not_seen = {"torch_scatter: torch_patches.portable_torch_scatter.*": ANYWHERE}
