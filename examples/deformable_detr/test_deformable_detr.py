"""The example as the README describes it: no import without the patches, training and boxes with them."""

import re
import subprocess
import sys
from pathlib import Path

import cv2
import matplotlib
import numpy
import pytest

HERE = Path(__file__).resolve().parent
STEPS = 8


def run(*arguments, cwd):
    return subprocess.run([sys.executable, *map(str, arguments)], cwd=cwd, capture_output=True, text=True)


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    folder = tmp_path_factory.mktemp("example")
    process = run(HERE / "run.py", "--steps", STEPS, "--output", "outputs", cwd=folder)
    assert process.returncode == 0, process.stdout + process.stderr
    return folder, process.stdout + process.stderr


def test_the_model_cannot_be_imported_without_the_patches(tmp_path):
    process = run(HERE / "unpatched.py", cwd=tmp_path)
    assert process.returncode == 0, process.stdout + process.stderr
    assert "`import mmdet.models` fails: No module named 'mmcv._ext'" in process.stdout


def test_training_reports_a_falling_finite_loss_at_every_step(example):
    _, output = example
    losses = numpy.array([float(loss) for loss in re.findall(r"step +\d+ +loss +(\S+)", output)])
    assert len(losses) == STEPS
    assert numpy.isfinite(losses).all()
    assert losses[-1] < 0.9 * losses[0]


def test_the_summary_names_the_deformable_attention_it_patched(example):
    _, output = example
    applied = output.partition("Applied Patches:")[2].partition("Skipped Patches:")[0]
    assert "+ mmcv.ops.multi_scale_deform_attn.MultiScaleDeformableAttnFunction.forward" in applied


def test_the_picture_is_the_photograph_with_boxes_drawn_on_it(example):
    folder, _ = example
    picture = cv2.imread(str(folder / "outputs" / "predictions.png"))
    photograph = cv2.imread(str(Path(matplotlib.get_data_path(), "sample_data", "grace_hopper.jpg")))
    assert picture.shape == photograph.shape
    changed = (numpy.abs(picture.astype(int) - photograph).max(axis=2) > 64).mean()
    assert 0 < changed < 0.5
