"""The example profiles the unmodified program and ends it with the last trace."""

import json
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent


def run(script, folder):
    return subprocess.run([sys.executable, str(FOLDER / script)], cwd=folder, capture_output=True, text=True)


def test_the_training_is_profiled_and_ends_with_the_last_trace(tmp_path):
    process = run("run.py", tmp_path)
    assert process.returncode == 0, process.stderr
    steps = process.stdout.splitlines()
    assert steps[-1] == "saved after 13 steps" and (tmp_path / "model.pt").is_file()
    traces = sorted((tmp_path / "traces").glob("rank0.*.pt.trace.json"))
    assert len(traces) == 2
    for cycle, trace in enumerate(traces, 1):
        names = {event.get("name") for event in json.loads(trace.read_text())["traceEvents"]}
        assert "aten::conv2d" in names and sum("ProfilerStep#" in str(name) for name in names) == 2
        assert "aten::" in (tmp_path / "traces" / f"operators_rank0_{cycle}.txt").read_text()

    unpatched = run("train.py", tmp_path).stdout.splitlines()
    assert unpatched[:13] == steps[:13] and len(unpatched) == 81
