"""The life cycle of the patches for single models."""

from __future__ import annotations

import importlib.util

import pytest

if importlib.util.find_spec("transformers") is None:
    pytest.skip("transformers is not installed in this environment", allow_module_level=True)
if importlib.util.find_spec("patcher_testing") is None:
    pytest.skip("patcher-testing is not installed in this environment", allow_module_level=True)

from patcher_testing.contract import PatchSetContract


class TestViews(PatchSetContract):
    groups = "transformers_patches:VIEWS"
    libraries = ("transformers",)
    modules = tuple(f"transformers.models.{name}.modeling_{name}" for name in ("llama", "qwen3", "qwen3_vl"))
