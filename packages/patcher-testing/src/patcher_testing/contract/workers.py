"""A program whose main module applies the patches, and a worker that it spawns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from .environments import search_path
from .subject import Subject

# The guard keeps what a worker must not run; apply() stands above it, as a program would have it.
_PROGRAM = """
import json, multiprocessing, pathlib, sys
from patcher_testing.contract.subject import Subject
from patcher_testing.npu_if_wanted import simulated_npu_if

subject = Subject.from_json(pathlib.Path(__file__).with_name("subject.json").read_text())
npu = simulated_npu_if(subject.on_npu)
npu.__enter__()
patcher = subject.new_patcher().apply()
subject.import_library()

def applied(_):
    return sorted({result.name for result in patcher.report.applied})

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        answer = {"here": applied(None), "worker": pool.map(applied, [None])[0]}
    pathlib.Path(__file__).with_name("applied.json").write_text(json.dumps(answer))
"""


def run_in_spawned_worker(subject: Subject, folder: Path) -> list[str]:
    """Problems found by comparing what is applied in a program with what is applied in its worker."""
    (folder / "program.py").write_text(_PROGRAM)
    (folder / "subject.json").write_text(subject.to_json())
    done = subprocess.run(
        [sys.executable, str(folder / "program.py")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(search_path())},
        capture_output=True,
        text=True,
        errors="replace",
    )
    answer = folder / "applied.json"
    if not answer.is_file():
        return [f"the program ended with status {done.returncode}\n{done.stdout}{done.stderr}"]
    names = json.loads(answer.read_text(encoding="utf-8"))
    expected = {target.name for target in subject.targets}
    problems = [f"{name}: not applied in the program" for name in sorted(expected - set(names["here"]))]
    return problems + [
        f"{name}: not applied in a spawned worker" for name in sorted(expected - set(names["worker"]))
    ]
