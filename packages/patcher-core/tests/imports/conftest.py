"""Import control changes ``sys.modules`` and ``sys.meta_path``: each case gets an interpreter of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

PRELUDE = """
import contextlib, copy, importlib, importlib.util, io, logging, os, pickle, sys, types, typing
from patcher_core.imports import ImportControl, SkippedModuleError, replace_with, subscribe

class Records(logging.Handler):
    def __init__(self):
        super().__init__()
        self.lines = []
    def emit(self, record):
        self.lines.append(f"{record.levelname} {record.getMessage()}")
    def warnings(self):
        return [line for line in self.lines if line.startswith("WARNING")]

records = Records()
logging.getLogger("patcher_core").addHandler(records)
control = ImportControl()

@contextlib.contextmanager
def raises(kind, *texts):
    try:
        yield
    except kind as error:
        for text in texts:
            assert text in str(error), (text, str(error))
    else:
        raise SystemExit(f"no {kind} was raised")
"""


@pytest.fixture
def run_controlled(tmp_path):
    """Run code that begins with ``PRELUDE``, warnings as errors, beside the modules in ``files``.

    Returns the CompletedProcess; an exit status other than 0 fails the test and shows what was printed.
    """

    def run(code, files=None, main="main.py", prelude=PRELUDE, arguments=()):
        for name, text in (files or {}).items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text), encoding="utf-8")
        script = tmp_path / main
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(prelude + textwrap.dedent(code), encoding="utf-8")
        environment = dict(os.environ)
        environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), *(entry for entry in sys.path if entry)])
        started = [str(script)] if not arguments else list(arguments)
        result = subprocess.run(
            [sys.executable, "-W", "error", *started],
            env=environment,
            cwd=str(Path(tmp_path)),
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert result.returncode == 0, f"{result.stdout}\n--- stderr\n{result.stderr}"
        return result

    return run
