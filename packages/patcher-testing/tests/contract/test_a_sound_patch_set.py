"""A sound patch set passes the whole contract, and its author writes this much."""

from __future__ import annotations

from patcher_testing.contract import PatchSetContract


class TestWoodenPatches(PatchSetContract):
    groups = "wooden_patches:ALL"
    libraries = ("wooden",)
    modules = ("wooden_user",)
