"""A version is called supported if its row ran and passed, and the page says what the record says."""

import pytest

from nox_support import matrix, results
from nox_support.environments import Environment
from nox_support.matrix import Row

JUNIT = '<testsuites><testsuite tests="{}" failures="{}" errors="0" skipped="{}"/></testsuites>'


def environment(name="mm", **fields):
    return Environment(
        name=name,
        python="3.11",
        packages=("torch==2.13.0", "mmcv-lite==2.1.0", "opencv-python-headless", "pytest>=7"),
        tests=("packages/patches-mmcv/tests",),
        **fields,
    )


def row(**changes):
    fields = {
        'package': "patches-mmcv", 'environment': "mm", 'python': "3.11", 'passed': 3, 'failed': 0, 'skipped': 1,
        'versions': {"mmcv-lite": "2.1.0", "torch": "2.13.0"}, 'date': "2030-01-02",
    }  # fmt: skip
    return Row(**{**fields, **changes})


@pytest.fixture
def ran(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(tests, failures, skipped):
        file = results.junit_file("mm", "packages/patches-mmcv/tests")
        file.write_text(JUNIT.format(tests, failures, skipped))

    return write


def test_a_row_counts_the_run_and_names_the_upstream_versions(ran):
    ran(tests=4, failures=0, skipped=1)
    assert matrix.rows_of_last_run([environment()], "2030-01-02") == [row()]


def test_an_environment_that_did_not_run_has_no_row(ran):
    assert matrix.rows_of_last_run([environment()], "2030-01-02") == []


def test_a_version_whose_tests_failed_is_not_supported(ran):
    ran(tests=4, failures=1, skipped=0)
    (failed,) = matrix.rows_of_last_run([environment()], "2030-01-02")
    assert not failed.supported
    assert "1 failed" in matrix.page([failed])
    assert "**not supported**" in matrix.page([failed])


def test_a_run_that_collected_nothing_is_not_supported(ran):
    results.junit_file("mm", "packages/patches-mmcv/tests")
    (nothing,) = matrix.rows_of_last_run([environment()], "2030-01-02")
    assert not nothing.supported


def test_new_rows_replace_old_ones_and_the_others_stay():
    environments = {"mm": environment(), "other": environment("other")}
    other = row(environment="other")
    kept = matrix.updated([row(), other], [row(passed=9)], environments)
    assert kept == [row(passed=9), other]


@pytest.mark.parametrize("stale", [row(environment="gone"), row(versions={"torch": "2.1.0"})])
def test_a_row_of_other_versions_or_of_no_environment_is_dropped(stale):
    assert matrix.updated([stale], [], {"mm": environment()}) == []


def test_a_version_built_from_its_sdist_or_kept_aside_is_named():
    from_source = environment(without_build_isolation=("mmcv==1.7.2",), aside={"A": ["torch_npu==2.13.0"]})
    versions = matrix.versions_of(from_source)
    assert (versions["mmcv"], versions["torch-npu"]) == ("1.7.2", "2.13.0")


def test_the_record_survives_being_written(tmp_path):
    matrix.write([row()], tmp_path / "record.json")
    assert matrix.read(tmp_path / "record.json") == [row()]


def test_the_page_in_the_docs_is_the_record():
    assert matrix.PAGE.read_text(encoding="utf-8") == matrix.page(matrix.read(matrix.RECORD))
