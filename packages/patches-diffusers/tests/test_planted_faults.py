"""A wrong replacement of anything in this set, planted on purpose, turns a test red."""

from __future__ import annotations

import diffusers
from packaging.version import Version

from patcher_testing.faults import PlantedFaults


class TestPlantedFaults(PlantedFaults):
    groups = "diffusers_patches:CATALOG"
    tests = ("test_attention_mask.py", "test_structural_patches.py")
    modules = ("torch", "diffusers")
    not_here = (
        {"diffusers_rope": "diffusers has none of the known forms before 0.28"}
        if Version(diffusers.__version__) < Version("0.28")
        else {}
    )
