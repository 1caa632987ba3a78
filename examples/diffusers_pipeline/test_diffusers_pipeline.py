"""The example runs as its README says, and its two images are one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("diffusers", reason="the example is about diffusers")

import numpy as np
from PIL import Image

HERE = Path(__file__).parent


def test_the_patched_image_is_the_unpatched_one(tmp_path):
    file = tmp_path / "pictures.png"
    command = [sys.executable, "-W", "ignore", str(HERE / "run.py"), "--output", str(file), "--seed", "3"]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    both = np.asarray(Image.open(file)).astype(int)
    assert both.shape == (128, 256, 3)
    unpatched, patched = both[:, :128], both[:, 128:]
    assert unpatched.std() > 5, "an image of one colour shows nothing"
    assert abs(unpatched - patched).max() <= 1
    said = process.stdout + process.stderr
    assert "diffusers.models.attention_processor.AttnProcessor2_0.__call__" in said
    assert "diffusers.models.activations.GELU.forward" in said
