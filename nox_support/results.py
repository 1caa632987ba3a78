"""Sums up the test runs of one `nox` call from the JUnit files that pytest wrote.

`python -m nox_support.results` prints the sums of the last call again, the closing line last.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

FOLDER = Path(".nox", "results")


@dataclass(frozen=True)
class Counts:
    """How many tests passed, failed (errors included) and were skipped."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def clear() -> None:
    """Remove the results of an earlier call."""
    for file in FOLDER.glob("*/*.xml"):
        file.unlink()


def path_of(environment: str, test_folder: str) -> Path:
    """Where the results of one test folder in one environment are kept."""
    return FOLDER / environment / (test_folder.strip("/").replace("/", ".") + ".xml")


def junit_file(environment: str, test_folder: str) -> Path:
    """Make the file for the results of one test folder in one environment.

    The file is empty until pytest has written it, so that a run that never happened counts as a failure.
    """
    file = path_of(environment, test_folder)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("")
    return file


def counts_of(file: Path) -> Counts:
    """Counts of one JUnit file; a run that never happened or had no test counts as one failure."""
    try:
        suites = list(ElementTree.parse(file).iter("testsuite"))
    except ElementTree.ParseError:
        return Counts(failed=1)
    tests, failures, errors, skipped = (
        sum(int(suite.get(key, "0")) for suite in suites)
        for key in ("tests", "failures", "errors", "skipped")
    )
    if not tests:
        return Counts(failed=1)
    failed = failures + errors
    return Counts(passed=max(tests - failed - skipped, 0), failed=failed, skipped=skipped)


def date_of(file: Path) -> str | None:
    """The day that the run of one JUnit file began, in ISO format; None where it never ran."""
    try:
        suite = next(ElementTree.parse(file).iter("testsuite"))
    except (ElementTree.ParseError, StopIteration):
        return None
    return suite.get("timestamp", "")[:10] or None


def print_summary() -> Counts:
    """Print a line for each test run and the sum alone on the last line; return the sum."""
    total = Counts()
    for file in sorted(FOLDER.glob("*/*.xml")):
        counts = counts_of(file)
        print(f"{file.parent.name:24} {file.stem:40} {counts}")
        total += counts
    print(f"\n{total}", flush=True)
    return total


if __name__ == "__main__":
    total = print_summary()
    sys.exit(1 if total.failed or not total.passed else 0)
