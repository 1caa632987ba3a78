"""On the simulated NPU: the intended operators run, and give what the unpatched model gives on the CPU."""

from __future__ import annotations

import importlib.util
import os

import pytest

torch = pytest.importorskip("torch")

if importlib.util.find_spec("transformers") is None:
    pytest.skip("transformers is not installed in this environment", allow_module_level=True)
if importlib.util.find_spec("patcher_testing") is None or "PATCHER_TESTING_NPU_PACKAGES" not in os.environ:
    pytest.skip("there is no torch_npu to simulate in this environment", allow_module_level=True)

import tiny_models  # noqa: E402

import transformers_patches  # noqa: E402
from patcher_core import Patcher  # noqa: E402

pytestmark = [
    pytest.mark.simulated_npu,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

OPERATORS = {
    "llama": ("npu_rms_norm", "npu_rotary_mul", "npu_swiglu"),
    "qwen3": ("npu_rms_norm", "npu_rotary_mul", "npu_swiglu"),
    "mixtral": ("npu_rms_norm", "npu_rotary_mul"),
    "gemma2": ("npu_rms_norm", "npu_rotary_mul"),
}


@pytest.mark.parametrize("family", OPERATORS)
def test_the_intended_operators_run_and_give_upstreams_logits_and_gradients(simulated_npu, family):
    model = tiny_models.tiny_model(family)
    input_ids = torch.randint(3, 60, (2, 9))
    expected = tiny_models.logits_and_gradients(model, input_ids)
    with Patcher(backend="npu").add(*transformers_patches.STRUCTURAL):
        model = model.to("npu")
        with simulated_npu.record_operators() as operators:
            found = tiny_models.logits_and_gradients(model, input_ids.to("npu"))
    for name in OPERATORS[family]:
        operators.assert_ran(name)
        operators.assert_ran(f"npu::{name}_backward")
    if "npu_swiglu" not in OPERATORS[family]:
        operators.assert_did_not_run("npu_swiglu")
    assert tiny_models.largest_difference([one.cpu() for one in found], expected) <= 1e-5
