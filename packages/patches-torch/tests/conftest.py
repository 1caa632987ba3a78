"""Fresh interpreters, in which warnings are errors."""

from __future__ import annotations

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
