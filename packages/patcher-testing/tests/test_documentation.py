"""The page "Test your own patch set without an NPU", followed to the letter in an empty folder."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the page needs torch")

PAGE = Path(__file__).parents[3] / "docs" / "testing-without-an-npu.md"


@pytest.fixture
def folder(tmp_path):
    """Every file that the page shows, under the name in its first line."""
    blocks = re.findall(r"```python\n# (\w+\.py)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    for name, text in blocks:
        (tmp_path / name).write_text(text)
    return tmp_path


def run(folder, *arguments):
    return subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True)


def test_the_tests_that_the_page_shows_pass(folder):
    done = run(folder, "-m", "pytest", "-q")
    assert re.search(r"^18 passed", done.stdout, re.MULTILINE), done.stdout + done.stderr


def test_the_commands_and_the_script_print_what_the_page_says(folder):
    check = run(folder, "-m", "patcher_testing.npu", "check")
    assert check.stdout in PAGE.read_text(encoding="utf-8") and check.stdout, check.stderr
    script = run(folder, "try_it.py")
    assert "npu::npu_swiglu" in script.stdout, script.stderr
