"""The projects written for either version of ``mx_driving.patcher`` run as they are, on the simulated NPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="these programs use it")

FOLDER = Path(__file__).resolve().parents[4] / "examples" / "coming_from_drivingsdk"
PROJECTS = sorted(file.parent.name for file in FOLDER.glob("*/train.py"))

#: What stands in for a machine with an NPU: the device is there before a program begins. That, and what mx_driving
#: imports of torch, take most of a program's time, so each begins in a process forked where both are there.
ON_THE_SIMULATED_NPU = """
import gc, os, pathlib, runpy, sys, warnings
from patcher_testing.npu import simulated_npu

projects, outputs = map(pathlib.Path, sys.argv[1:3])
with simulated_npu():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # mx_driving's own, at import
        import patcher_core.compat.mx_driving
    import torch._inductor.compile_fx
    gc.freeze()  # a forked process that looks at all of it would copy it
    for project in sys.argv[3:]:
        child = os.fork()
        if not child:
            output = os.open(outputs / f"{project}.txt", os.O_WRONLY | os.O_CREAT)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.chdir(projects / project)
            sys.path.insert(0, os.getcwd())
            sys.argv = ["train.py", "cuda"]
            runpy.run_path("train.py", run_name="__main__")
            break
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        (outputs / f"{project}.status").write_text(str(status))
"""


@pytest.fixture(scope="module")
def outputs(tmp_path_factory) -> Path:
    """A folder with the output and the exit status of each program: ``NAME.txt`` and ``NAME.status``."""
    folder = tmp_path_factory.mktemp("outputs")
    done = subprocess.run(
        [sys.executable, "-c", ON_THE_SIMULATED_NPU, str(FOLDER), str(folder), *PROJECTS],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.parametrize("project", PROJECTS)
def test_the_project_runs_unmodified(project, outputs):
    output = (outputs / f"{project}.txt").read_text(encoding="utf-8")
    assert (outputs / f"{project}.status").read_text() == "0" and "trained" in output, output
