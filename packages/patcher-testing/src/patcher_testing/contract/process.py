"""Runs scenarios in processes of their own: fresh ones, or copies of one that has imported what takes long."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any, Sequence

from ..fork import in_fork
from ..npu_if_wanted import simulated_npu_if
from . import scenarios
from .environments import search_path
from .subject import Subject, Target

#: Starts without `site`, so that the search path is exactly the one that was given.
_START = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from patcher_testing.contract.process import main
main()
"""

#: Asks for all scenarios for which the libraries are as they are here.
_TOGETHER = "together"


def run(name: str, subject: Subject, answer: Path, path: Sequence[str] | None = None) -> Any:
    """The answer of the scenario `name`, run in a fresh process: a list of problems.

    Args:
        answer: a file that does not exist yet, for the process to write to (its output belongs to the libraries).
        path: the search path; by default that of this process.

    Raises:
        AssertionError: the process failed; with its output.
    """
    return _run(name, subject, answer, path)[0]


def run_together(subject: Subject, answer: Path) -> dict[str, Any]:
    """What `discover` found, by that name, and the answers of all scenarios for which the libraries are there.

    Each runs in a copy of one process, those that begin with the library in use in a copy of one that uses it.
    """
    answers, output = _run(_TOGETHER, subject, answer, None)
    died = {name: [f"{name}: {said}\n{output}"] for name, said in answers.items() if isinstance(said, str)}
    return {**answers, **died}


def _run(name: str, subject: Subject, answer: Path, path: Sequence[str] | None) -> tuple[Any, str]:
    search = json.dumps(list(path or search_path()))
    done = subprocess.run(
        [sys.executable, "-S", "-c", _START, search, name, str(answer), subject.to_json()],
        # a pool of OpenMP threads does not survive the copying of its process
        env={"OMP_NUM_THREADS": "1", **os.environ},
        capture_output=True,
        text=True,
        errors="replace",
    )
    output = f"{done.stdout}{done.stderr}"
    if not answer.is_file():
        raise AssertionError(f"{name}: the process ended with status {done.returncode}\n{output}")
    return json.loads(answer.read_text(encoding="utf-8")), output


def main() -> None:
    """Entry point of the fresh process."""
    _, name, answer, subject_text = sys.argv[1:]
    subject = Subject.from_json(subject_text)
    with simulated_npu_if(
        subject.on_npu and not (name in scenarios.WITHOUT_LIBRARY and "torch" in subject.libraries)
    ):
        result = _together(subject) if name == _TOGETHER else _problems(name, subject)
    Path(answer).write_text(json.dumps(result), encoding="utf-8")


def _problems(name: str, subject: Subject) -> list[str]:
    try:
        return list(scenarios.SCENARIOS[name](subject))
    except Exception:
        return [traceback.format_exc()]


def _together(subject: Subject) -> dict[str, Any]:
    for module in subject.imported_first:
        importlib.import_module(module)
    found = in_fork(lambda: discover(subject))
    if isinstance(found, str):
        return {"discover": found}
    targets = tuple(
        Target(result["name"], result["group"])
        for result in found["results"]
        if result["status"] == "applied"
    )
    subject = dataclasses.replace(subject, targets=targets)
    fresh = scenarios.SCENARIOS.keys() - {*scenarios.WITH_LIBRARY_IN_USE, *scenarios.WITHOUT_LIBRARY}
    answers = {name: in_fork(lambda name=name: _problems(name, subject)) for name in sorted(fresh)}
    subject.import_what_works_unpatched()
    for name in scenarios.WITH_LIBRARY_IN_USE:
        answers[name] = in_fork(lambda name=name: _problems(name, subject))
    return {"discover": found, **answers}


def discover(subject: Subject) -> dict[str, Any]:
    """Apply everything once: which targets are applied here, and what is said of the others."""
    groups = subject.load_groups()
    patcher = subject.new_patcher().apply()
    subject.import_library()
    results = [result.to_dict() for result in patcher.report.results]
    return {"results": results, "groups": [group.name for group in groups]}
