"""The closing line counts every run, and a run that never happened is a failure."""

import subprocess
import sys

import pytest

from nox_support import results


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run_pytest(environment, body, tmp_path):
    folder = tmp_path / environment
    folder.mkdir()
    (folder / "test_it.py").write_text(body)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        f"--junitxml={results.junit_file(environment, 'tests')}",
        str(folder),
    ]
    subprocess.run(command, capture_output=True)


BODY = """
import pytest
def test_passes(): pass
def test_fails(): assert False
@pytest.mark.skip(reason="no")
def test_skipped(): pass
@pytest.fixture
def broken(): raise OSError
def test_error(broken): pass
"""


def test_errors_count_as_failures_and_environments_add_up(tmp_path, capsys):
    run_pytest("one", BODY, tmp_path)
    run_pytest("two", "def test_passes(): pass", tmp_path)
    total = results.print_summary()
    assert total == results.Counts(passed=2, failed=2, skipped=1)
    assert capsys.readouterr().out.splitlines()[-1] == "2 passed, 2 failed, 1 skipped"


def test_a_run_that_was_announced_and_never_happened_is_a_failure():
    results.junit_file("environment", "packages/a/tests")
    assert results.print_summary() == results.Counts(failed=1)


def test_a_run_without_a_test_is_a_failure(tmp_path):
    run_pytest("empty", "", tmp_path)
    assert results.print_summary() == results.Counts(failed=1)


def test_results_of_an_earlier_call_are_gone_after_clear(tmp_path):
    run_pytest("one", BODY, tmp_path)
    results.clear()
    assert results.print_summary() == results.Counts()
