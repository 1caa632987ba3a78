"""A version is called supported if its row ran and passed, and the page says what the record says."""

import pytest

from nox_support import matrix, results
from nox_support.environments import Environment
from nox_support.matrix import Row

JUNIT = (
    '<testsuites><testsuite tests="{}" failures="{}" errors="0" skipped="{}" timestamp="2030-01-02T03:04:05.6+00:00"/>'
    "</testsuites>"
)


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
    assert matrix.rows_of_last_run([environment()], "2031-12-13") == [row()]


def test_an_environment_that_did_not_run_has_no_row(ran):
    assert matrix.rows_of_last_run([environment()], "2030-01-02") == []


def test_a_version_whose_tests_failed_is_not_supported(ran):
    ran(tests=4, failures=1, skipped=0)
    (failed,) = matrix.rows_of_last_run([environment()], "2030-01-02")
    assert not failed.passes
    assert "1 failed" in matrix.page([failed])
    assert "**not supported**" in matrix.page([failed])


def test_a_run_that_never_started_is_not_supported_and_of_today(ran):
    results.junit_file("mm", "packages/patches-mmcv/tests")
    (nothing,) = matrix.rows_of_last_run([environment()], "2031-12-13")
    assert (nothing.passes, nothing.date) == (False, "2031-12-13")


def test_a_refused_version_is_called_so_with_the_reason_if_the_tests_saw_it_refused(ran):
    refused = environment(refused="another order of arguments")
    ran(tests=1, failures=0, skipped=0)
    assert (
        matrix.rows_of_last_run([refused], "2030-01-02")[0].verdict == "refused: another order of arguments"
    )
    ran(tests=1, failures=1, skipped=0)
    assert matrix.rows_of_last_run([refused], "2030-01-02")[0].verdict == "**not supported**"


def test_a_version_with_which_only_a_part_works_is_called_so_if_the_tests_passed(ran):
    partly = environment(supported_part="counting steps")
    ran(3, 0, 0)
    assert matrix.rows_of_last_run([partly], "2030-01-02")[0].verdict == "in part: counting steps"
    ran(3, 1, 0)
    assert matrix.rows_of_last_run([partly], "2030-01-02")[0].verdict == "**not supported**"


def test_rows_stand_from_the_oldest_upstream_to_the_newest_with_what_is_patched_first():
    def of(version):
        packages = ("torch==2.13.0", f"mmcv-lite=={version}")
        return Environment(f"mm-{version}", "3.11", packages=packages, tests=("packages/patches-mmcv/tests",))

    environments = {one.name: one for one in map(of, ("2.10.0", "2.0.0rc4", "2.2.0"))}
    rows = [row(environment=name, versions=matrix.versions_of(one)) for name, one in environments.items()]
    lines = matrix.page(matrix.updated(rows, [], environments)).splitlines()
    assert [line.split("|")[1].strip() for line in lines if "mmcv-lite" in line] == [
        "mmcv-lite 2.0.0rc4, torch 2.13.0",
        "mmcv-lite 2.2.0, torch 2.13.0",
        "mmcv-lite 2.10.0, torch 2.13.0",
    ]


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
