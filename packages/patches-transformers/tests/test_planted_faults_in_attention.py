"""A wrong attention, planted on purpose, turns a test red, also in what the oldest versions alone have."""

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

if importlib.metadata.version("transformers") not in SpecifierSet(">=4.51,<4.53"):
    pytest.skip("test_planted_faults.py has all that this version has", allow_module_level=True)


class TestPlantedFaultsInAttention(PlantedFaults):
    groups = "transformers_patches:ATTENTION"
    tests = [
        "test_attention.py::test_a_model_computes_what_its_eager_attention_does",
        "test_attention.py::test_flash_attention_is_what_its_formula_says",
        "test_attention.py::test_flash_attention_of_several_lengths_is_that_of_each",
    ]
    modules = ["attention_models"]
