"""Runs one scenario in a fresh process."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any, ContextManager, Sequence

from .environments import search_path
from .subject import Subject

#: Starts without `site`, so that the search path is exactly the one that was given.
_START = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from patcher_testing.contract.process import main
main()
"""

#: Scenarios in which the libraries are not what the simulated NPU needs, should torch be one of them.
WITHOUT_LIBRARY = ("library_absent", "library_of_another_version")


def run(name: str, subject: Subject, answer: Path, path: Sequence[str] | None = None) -> Any:
    """The answer of the scenario `name`: a list of problems, or what `discover` found.

    Args:
        answer: a file that does not exist yet, for the process to write to (its output belongs to the libraries).
        path: the search path; by default that of this process.

    Raises:
        AssertionError: the process failed; with its output.
    """
    search = json.dumps(list(path or search_path()))
    done = subprocess.run(
        [sys.executable, "-S", "-c", _START, search, name, str(answer), subject.to_json()],
        env=dict(os.environ),
        capture_output=True,
        text=True,
        errors="replace",
    )
    if not answer.is_file():
        raise AssertionError(
            f"{name}: the process ended with status {done.returncode}\n{done.stdout}{done.stderr}"
        )
    return json.loads(answer.read_text(encoding="utf-8"))


def main() -> None:
    """Entry point of the fresh process."""
    _, name, answer, subject_text = sys.argv[1:]
    subject = Subject.from_json(subject_text)
    from . import scenarios

    with npu_if(subject.on_npu and not (name in WITHOUT_LIBRARY and "torch" in subject.libraries)):
        try:
            result: Any = (
                discover(subject) if name == "discover" else list(scenarios.SCENARIOS[name](subject))
            )
        except Exception:
            result = [traceback.format_exc()]
    Path(answer).write_text(json.dumps(result), encoding="utf-8")


def npu_if(wanted: bool) -> ContextManager[Any]:
    if not wanted:
        return contextlib.nullcontext()
    from ..npu import simulated_npu

    return simulated_npu()


def discover(subject: Subject) -> dict[str, Any]:
    """Apply everything once: which targets are applied here, and what is said of the others."""
    groups = subject.load_groups()
    patcher = subject.new_patcher().apply()
    subject.import_library()
    results = [result.to_dict() for result in patcher.report.results]
    return {"results": results, "groups": [group.name for group in groups]}
