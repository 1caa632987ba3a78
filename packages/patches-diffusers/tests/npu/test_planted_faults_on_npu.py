"""A wrong replacement of anything in this set, planted on purpose, turns a test red on the simulated NPU."""

from __future__ import annotations

import pytest

pytest.importorskip("diffusers", reason="these are patches of diffusers")

from patcher_testing.faults import PlantedFaults


class TestPlantedFaults(PlantedFaults):
    groups = "diffusers_patches:CATALOG"
    tests = ("test_numbers_on_npu.py", "test_upstream_branches_for_npu.py")
    on_npu = True
    not_here = {"diffusers_npu": "the same patches under one name: ../test_planted_faults.py"}
    not_seen = {
        "attn_processor_2_0: diffusers.models.attention_processor.FusedAttnProcessor2_0.*": (
            "it has no implementation for the NPU: ../test_planted_faults.py"
        )
    }
