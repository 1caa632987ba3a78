"""Tests on the simulated NPU run elsewhere, and are reported as if they had run here."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="the simulated NPU needs torch")


@pytest.fixture
def run_pytest(tmp_path):
    """Run pytest on a test file in an empty folder."""

    def run(text, *arguments, **environment):
        (tmp_path / "pytest.ini").write_text("[pytest]\n")
        (tmp_path / "test_it.py").write_text(text)
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--junitxml=results.xml", *arguments],
            cwd=tmp_path,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
        )

    return run


def test_every_outcome_comes_back_from_the_groups_process(run_pytest):
    done = run_pytest(
        """
import os, sys
import pytest

def test_here():
    assert "torch_npu" not in sys.modules

def test_passes(simulated_npu):
    import torch_npu

@pytest.mark.simulated_npu
def test_fails():
    import torch
    print("printed before it failed")
    assert torch.ones(1, device="npu").item() == 2

@pytest.mark.simulated_npu
@pytest.mark.skip(reason="not today")
def test_is_skipped():
    pass

@pytest.mark.xfail(reason="known")
def test_is_expected_to_fail(simulated_npu):
    assert False

@pytest.mark.simulated_npu(group="crash")
def test_crashes():
    os._exit(3)
"""
    )
    assert "2 failed, 2 passed, 1 skipped, 1 xfailed" in done.stdout, done.stdout + done.stderr
    assert "printed before it failed" in done.stdout
    assert "ended with status 3 before the test did" in done.stdout


def test_groups_share_a_process_and_differ_between_groups(run_pytest):
    done = run_pytest(
        """
import os
from pathlib import Path
import pytest

def note(name):
    with Path("processes").open("a") as file:
        file.write(f"{name} {os.getpid()}\\n")

def test_one(simulated_npu):
    note("module")

def test_two(simulated_npu):
    note("module")

@pytest.mark.simulated_npu(group="other")
def test_three():
    note("other")

def test_processes():
    lines = [line.split() for line in Path("processes").read_text().splitlines()]
    by_group = {}
    for name, process in lines:
        by_group.setdefault(name, set()).add(process)
    assert len(lines) == 3 and all(len(found) == 1 for found in by_group.values())
    assert by_group["module"] != by_group["other"]
    assert str(os.getpid()) not in set.union(*by_group.values())
"""
    )
    assert "4 passed" in done.stdout, done.stdout + done.stderr


def test_a_file_that_ends_with_such_a_test_gives_its_fixtures_back_before_the_next_file(run_pytest, tmp_path):
    (tmp_path / "test_next_file.py").write_text("""
def test_after():
    with open("order") as file:
        assert file.read() == "given back"
""")
    done = run_pytest(
        """
import pytest

@pytest.fixture(scope="module", autouse=True)
def resource():
    yield
    with open("order", "w") as file:
        file.write("given back")

def test_here():
    pass

def test_elsewhere(simulated_npu):
    pass
"""
    )
    assert "3 passed" in done.stdout, done.stdout + done.stderr


def test_an_npu_that_cannot_start_fails_with_its_reason_or_skips_where_that_is_wanted(run_pytest, tmp_path):
    text = "def test_it(simulated_npu): pass"
    environment = {"PATCHER_TESTING_CACHE": str(tmp_path / "cache"), "CC": "no-such-compiler"}
    required = run_pytest(text, **environment)
    assert "1 error" in required.stdout
    assert "needs gcc, which is not on PATH" in required.stdout
    assert "skip instead: pytest -o simulated_npu=optional" in required.stdout
    optional = run_pytest(text, "-o", "simulated_npu=optional", "-rs", **environment)
    assert "1 skipped" in optional.stdout
    assert "needs gcc, which is not on PATH" in optional.stdout
