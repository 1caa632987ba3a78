"""Fresh interpreters, in which warnings are errors, programs, and what the patcher says."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import textwrap

import pytest


@pytest.fixture
def run_python(tmp_path):
    """Run code in a fresh interpreter that finds the given files before anything else; gives back its output."""

    def run(code, files=None, warnings="error", **environment):
        for name, text in (files or {}).items():
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(textwrap.dedent(text))
        script = tmp_path / "main.py"
        script.write_text(textwrap.dedent(code))
        search = os.pathsep.join(filter(None, sys.path))
        variables = {"PYTHONPATH": search, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, "-W", warnings, str(script)],
            env={**os.environ, **variables, **environment},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        run.said = done.stderr
        return done.stdout.strip()

    return run


@pytest.fixture
def run_program(tmp_path):
    """Run a program in its own process and folder, by a launcher such as torchrun; gives back what came of it."""

    def run(code, launcher=(sys.executable,), **environment):
        (tmp_path / "program.py").write_text(code)
        search = os.pathsep.join(filter(None, sys.path))
        variables = {"PYTHONPATH": search, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "OMP_NUM_THREADS": "1"}
        return subprocess.run(
            [*launcher, "program.py"],
            cwd=tmp_path,
            env={**os.environ, **variables, **environment},
            capture_output=True,
            text=True,
            timeout=120,
        )

    return run


@pytest.fixture
def messages(caplog):
    """What the patcher said at a level: ``messages("WARNING")``."""
    caplog.set_level(logging.INFO, logger="patcher_core")

    def said(level):
        return [record.getMessage() for record in caplog.records if record.levelname == level]

    return said
