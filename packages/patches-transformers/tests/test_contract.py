"""The life cycle of the patch set: applied before and after the library, lazily, twice, undone, in workers."""

from __future__ import annotations

import importlib.metadata
import importlib.util

import pytest

if importlib.util.find_spec("transformers") is None:
    pytest.skip("transformers is not installed in this environment", allow_module_level=True)
if importlib.util.find_spec("patcher_testing") is None:
    pytest.skip("patcher-testing is not installed in this environment", allow_module_level=True)

from patcher_testing.contract import PatchSetContract

VERSION = tuple(int(part) for part in importlib.metadata.version("transformers").split(".")[:2])
NOT_HERE = dict.fromkeys(("image_processor_device", "qwen2vl_preprocess"), "needs an NPU")
if VERSION >= (4, 53):
    reason = "transformers makes the mask once"
    NOT_HERE |= dict.fromkeys(("flash_attention", "flash_attention_varlen"), reason)
if not (4, 55) <= VERSION < (5, 15):
    NOT_HERE["qwen3_vl_placeholder_mask"] = "transformers counts the tokens and gathers nothing"
MODELS = ("llama", "gemma", "qwen2_vl", *(("qwen3_vl",) if VERSION >= (4, 57) else ()))


class TestEverything(PatchSetContract):
    groups = "transformers_patches:ALL"
    libraries = ("transformers",)
    modules = tuple(f"transformers.models.{name}.modeling_{name}" for name in MODELS)
    imported_first = ("accelerate", "torch._dynamo", "torch.distributed.tensor")
    not_here = NOT_HERE
