"""The projects written for either version of ``mx_driving.patcher`` run as they are, on the simulated NPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="these programs use it")

FOLDER = Path(__file__).resolve().parents[4] / "examples" / "coming_from_drivingsdk"
PROJECTS = sorted(file.parent.name for file in FOLDER.glob("*/train.py"))

#: What stands in for a machine with an NPU: the device is there before the program begins.
ON_THE_SIMULATED_NPU = """
import os, runpy, sys, warnings
from patcher_testing.npu import simulated_npu

with simulated_npu():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # mx_driving's own, at import
        import patcher_core.compat.mx_driving
    sys.path.insert(0, os.getcwd())
    runpy.run_path("train.py", run_name="__main__")
"""


@pytest.mark.parametrize("project", PROJECTS)
def test_the_project_runs_unmodified(project, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    done = subprocess.run(
        [sys.executable, "-B", "-c", ON_THE_SIMULATED_NPU, "cuda"],
        cwd=FOLDER / project,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and "trained" in done.stdout, done.stdout + done.stderr
