"""A wrong replacement of anything in this set, planted on purpose, turns a test red."""

from __future__ import annotations

from patcher_testing.faults import PlantedFaults


class TestPlantedFaults(PlantedFaults):
    groups = "diffusers_patches:CATALOG"
    tests = ("test_attention_mask.py", "test_structural_patches.py")
    modules = ("torch", "diffusers")
