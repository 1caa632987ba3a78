"""``patcher run --profile DIR --brake-at N``: an unmodified training loop is profiled and stopped."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

LOOP = """
    import torch

    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(1, 100):
        optimizer.zero_grad()
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        print(step)
"""


def run(folder, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(textwrap.dedent(LOOP))
    hidden = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "PATCHER_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    command = [sys.executable, "-m", "patcher_core", "run", *options, "--", "train.py"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=200)


def test_a_loop_stops_after_the_step_it_is_told(tmp_path):
    done = run(tmp_path, "--brake-at", "3")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["1", "2", "3"]


def test_a_loop_is_profiled_into_a_folder(tmp_path):
    done = run(tmp_path, "--profile", "traces", "--brake-at", "30")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == "30"
    assert any(file.suffix == ".json" for file in (tmp_path / "traces").rglob("*"))
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["traces"]


def test_a_folder_that_cannot_be_written_to_ends_the_run_before_the_program(tmp_path):
    (tmp_path / "file").write_text("")
    done = run(tmp_path, "--profile", "file/traces")
    assert done.returncode == 2 and not done.stdout
    assert "patcher run: " in done.stderr and "file/traces" in done.stderr
