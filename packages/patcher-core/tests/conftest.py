"""Shared by all tests of the core: fresh interpreters with throw-away packages, and modules made for one test."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import types
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping

import pytest

LAUNCHER_VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "SLURM_PROCID", "PATCHER_BACKEND")


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    for relative, text in files.items():
        path = folder / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")


@pytest.fixture
def run_python(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """``run_python(code, files={}, env={}, check=True)``: run a script in a fresh interpreter, packages beside it."""

    def run(
        code: str,
        files: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
        check: bool = True,
        timeout: float = 120,
    ) -> subprocess.CompletedProcess[str]:
        source = tmp_path / "src"
        source.mkdir(exist_ok=True)
        write_files(source, files or {})
        script = tmp_path / "main.py"
        script.write_text(textwrap.dedent(code), encoding="utf-8")
        environment = {name: value for name, value in os.environ.items() if name not in LAUNCHER_VARIABLES}
        environment["PYTHONPATH"] = os.pathsep.join([str(source), *(path for path in sys.path if path)])
        environment.update(env or {})
        done = subprocess.run(
            [sys.executable, "-W", "error", str(script)],
            env=environment,
            cwd=str(tmp_path),
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        if check:
            assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    return run


@pytest.fixture
def make_module(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., types.ModuleType]]:
    """``make_module("name", "source", **names)``: a module in ``sys.modules`` for the length of one test."""

    def make(name: str, source: str = "", **names: Any) -> types.ModuleType:
        module = types.ModuleType(name)
        module.__dict__.update(names)
        monkeypatch.setitem(sys.modules, name, module)
        exec(compile(textwrap.dedent(source), f"<{name}>", "exec"), module.__dict__)
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)
        return module

    yield make


@pytest.fixture
def messages(caplog: pytest.LogCaptureFixture) -> Callable[[int], list[str]]:
    """``messages(level)``: what the patcher logged at that level or above."""
    caplog.set_level("DEBUG", logger="patcher_core")

    def logged(level: int = 0) -> list[str]:
        return [record.getMessage() for record in caplog.records if record.levelno >= level]

    return logged
