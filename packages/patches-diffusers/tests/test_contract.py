"""The life cycle of the set with the installed diffusers."""

from __future__ import annotations

import importlib.metadata
from typing import Any

from patcher_testing.contract import PatchSetContract

_VERSION = tuple(map(int, importlib.metadata.version("diffusers").split(".")[:2]))


class TestDiffusersPatches(PatchSetContract):
    groups = "diffusers_patches:ALL"
    libraries = ("diffusers",)
    modules = (
        "diffusers.models.normalization",
        "diffusers.models.activations",
        "diffusers.models.embeddings",
        "diffusers.models.attention_processor",
    )
    not_here = {} if _VERSION >= (0, 28) else {"diffusers_rope": "diffusers 0.27 has no apply_rotary_emb"}


class TestDiffusersNPU:
    """The composite, which is not in ``ALL`` beside its members."""

    def test_it_applies_what_its_members_apply(self) -> None:
        import diffusers.models.attention_processor
        import diffusers.models.embeddings  # noqa: F401

        import diffusers_patches
        from patcher_core import Patcher

        def applied(*groups: Any) -> set[str]:
            with Patcher(backend="portable").add(*groups) as patcher:
                return {result.name for result in patcher.report.applied}

        together = applied(diffusers_patches.DiffusersNPU)
        assert "diffusers.models.attention_processor.AttnProcessor2_0.__call__" in together
        assert together == applied(*diffusers_patches.ALL)
