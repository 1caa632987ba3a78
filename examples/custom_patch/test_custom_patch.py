"""The example says what it prints."""

import re
import subprocess
import sys
from pathlib import Path


def test_the_loss_is_finite_with_the_patch_and_other_calls_run_the_original():
    script = Path(__file__).with_name("train.py")
    process = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    before, after, in_float32 = map(float, re.findall(r"(inf|[\d.]+)(?:, |$)", process.stdout.split("\n")[0]))
    assert before == float("inf")
    assert abs(after - in_float32) < in_float32 * 2**-11  # half a unit in the last place of float16
    assert "runs the original: True" in process.stdout
    assert "+ torch.nn.functional.mse_loss" in process.stderr
