"""A wrong replacement of anything in this set, planted on purpose, turns a test red."""

from __future__ import annotations

import importlib.metadata
import importlib.util

import pytest

if importlib.util.find_spec("transformers") is None:
    pytest.skip("transformers is not installed in this environment", allow_module_level=True)
if importlib.util.find_spec("patcher_testing") is None:
    pytest.skip("patcher-testing is not installed in this environment", allow_module_level=True)

from packaging.specifiers import SpecifierSet

from patcher_testing.faults import PlantedFaults

VERSION = importlib.metadata.version("transformers")
ON_NPU = "it needs an NPU: test_planted_faults_on_npu.py"
#: The versions that have what a group replaces, and the environment of `matrix.toml` with one of them.
VERSIONS = {
    "flash_attention": (">=4.51,<4.53", "transformers-oldest"),
    "flash_attention_varlen": (">=4.51,<4.53", "transformers-oldest"),
    "qwen3_vl_placeholder_mask": (">=4.55,<5.15", "transformers"),
    "qwen3_vl_text_rmsnorm": (">=4.57", "transformers"),
    "qwen3_vl_rope": (">=4.57", "transformers"),
}


class TestPlantedFaults(PlantedFaults):
    groups = "transformers_patches:CATALOG"
    tests = [
        "test_known_forms.py",
        "test_by_name.py",
        "test_attention.py::test_a_model_computes_what_its_eager_attention_does",
        "test_attention.py::test_flash_attention_is_what_its_formula_says",
        "test_attention.py::test_flash_attention_of_several_lengths_is_that_of_each",
    ]
    modules = ["copied_models"]
    not_here = {
        "image_processor_device": ON_NPU,
        "qwen2vl_preprocess": ON_NPU,
        **{
            name: f"it is for transformers {versions}: the environment {environment}"
            for name, (versions, environment) in VERSIONS.items()
            if VERSION not in SpecifierSet(versions)
        },
    }
