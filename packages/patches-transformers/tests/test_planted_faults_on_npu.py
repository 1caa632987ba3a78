"""A wrong replacement that runs on the NPU, planted on purpose, turns a test on the simulated NPU red."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os

import pytest

if importlib.util.find_spec("transformers") is None:
    pytest.skip("transformers is not installed in this environment", allow_module_level=True)
if importlib.util.find_spec("patcher_testing") is None or "PATCHER_TESTING_NPU_PACKAGES" not in os.environ:
    pytest.skip("there is no torch_npu to simulate in this environment", allow_module_level=True)

from packaging.specifiers import SpecifierSet

from patcher_testing.faults import PlantedFaults

VERSION = importlib.metadata.version("transformers")
NOT_HERE = {"qwen3_vl_placeholder_mask": "it needs no NPU: test_planted_faults.py"}
TESTS = [
    "test_known_forms_on_npu.py",
    "test_on_npu.py::test_attention_is_the_fused_operator_and_gives_what_eager_attention_gives",
]
#: torchvision must be importable before transformers looks for it; the last two are what transfer_to_npu imports.
MODULES = ["copied_models", "transformers.trainer", "torch._inductor.compile_fx"]
if VERSION in SpecifierSet(">=4.51,<4.53"):
    TESTS += [
        "test_on_npu.py::test_flash_attention_runs_the_operator_with_a_mask_made_once",
        "test_on_npu.py::test_flash_attention_of_a_model_keeps_to_its_window",
    ]
else:
    NOT_HERE |= dict.fromkeys(
        ("flash_attention", "flash_attention_varlen"), "it is for transformers >=4.51,<4.53"
    )
if "PATCHER_REFERENCE_TORCHVISION" in os.environ:
    TESTS.append("test_image_processors_on_npu.py")
    MODULES.insert(0, "image_processor_of_qwen2_vl")
else:
    reason = "it needs torchvision, which this environment has not"
    NOT_HERE |= dict.fromkeys(("image_processor_device", "qwen2vl_preprocess"), reason)


class TestPlantedFaultsOnNPU(PlantedFaults):
    groups = "transformers_patches:ALL"
    tests = TESTS
    modules = MODULES
    on_npu = True
    not_here = NOT_HERE
