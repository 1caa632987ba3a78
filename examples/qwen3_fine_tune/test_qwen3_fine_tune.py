"""The example as its README describes it: the same losses with and without the patches, and what was patched."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

for needed in ("transformers", "accelerate", "transformers_patches"):
    if importlib.util.find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed in this environment", allow_module_level=True)

HERE = Path(__file__).resolve().parent
STEPS = 30


def run(script, folder):
    done = subprocess.run(
        [sys.executable, str(HERE / script), "--steps", str(STEPS), "--output", "outputs"],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "PATCHER_BACKEND": "portable"},
    )
    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    return output


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    folders = {script: tmp_path_factory.mktemp(script) for script in ("train.py", "run.py")}
    return {script: (run(script, folder), folder) for script, folder in folders.items()}


def losses(output):
    return [float(one) for one in re.findall(r"step +\d+ +loss +(\S+)", output)]


def test_the_patched_script_learns_as_the_script_itself_does(outputs):
    upstream, patched = losses(outputs["train.py"][0]), losses(outputs["run.py"][0])
    assert len(patched) == len(upstream) == STEPS // 10
    assert patched[-1] < 0.7 * patched[0]
    assert patched == pytest.approx(upstream, rel=1e-3)


def test_the_saved_model_is_an_ordinary_one(outputs):
    from transformers import Qwen3ForCausalLM

    _, folder = outputs["run.py"]
    model = Qwen3ForCausalLM.from_pretrained(folder / "outputs")
    assert sum(one.numel() for one in model.parameters()) > 50_000


def test_the_report_names_what_was_patched(outputs):
    output, _ = outputs["run.py"]
    for name in ("Qwen3RMSNorm.forward", "Qwen3MLP.forward", "apply_rotary_pos_emb"):
        assert f"transformers.models.qwen3.modeling_qwen3.{name}" in output
