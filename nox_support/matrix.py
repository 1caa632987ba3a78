"""The supported versions: what `nox -s matrix` ran, kept in a file, and the table that the docs show of it.

A row is one package's tests in one environment. Upstream versions count as supported if the row passed; a row whose
environment has other versions by now, or is gone, is left out.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Iterable, Mapping

import nox.project
from packaging.requirements import Requirement
from packaging.version import Version

from . import results
from .environments import PACKAGES, ROOT, Environment

RECORD = ROOT / "docs" / "supported-versions.json"
PAGE = ROOT / "docs" / "supported-versions.md"
HEAD = """# Supported versions

Each line was run: the tests of that patch set with those upstream versions, on a CPU, with the date and the counts.
`python -m nox -s matrix -- PACKAGE` runs them again and writes this page. What a patch set admits at all stands in
its `pyproject.toml`; a version between two lines is likely to work and not proven.

What the patch set patches comes first, then what else was installed. Skipped tests say why in the run; most are about
something that this version lacks. *Refused*: nothing is patched there, and the report names the version that it found.
*In part*: what is named works there, all else is refused.
"""


@dataclass(frozen=True)
class Row:
    """One package's tests in one environment, on the day they last ran."""

    package: str
    environment: str
    python: str
    versions: dict[str, str]
    passed: int
    failed: int
    skipped: int
    date: str
    refused: str = ""
    supported_part: str = ""

    @property
    def passes(self) -> bool:
        return self.passed > 0 and self.failed == 0

    @property
    def verdict(self) -> str:
        if not self.passes:
            return "**not supported**"
        if self.refused:
            return f"refused: {self.refused}"
        return f"in part: {self.supported_part}" if self.supported_part else "supported"

    @property
    def ordered_versions(self) -> list[tuple[str, str]]:
        """Names and versions, what the package patches itself before the rest."""
        own = patched_by(self.package)
        return sorted(self.versions.items(), key=lambda pair: (pair[0] not in own, pair[0]))

    @property
    def order(self) -> tuple[object, ...]:
        """Where the row stands in the table: by package, then from the oldest upstream to the newest."""
        versions = [(name, Version(version)) for name, version in self.ordered_versions]
        return (self.package, versions, Version(self.python), self.environment)


@functools.lru_cache(maxsize=None)
def patched_by(package: str) -> frozenset[str]:
    """Distributions that a package of this repository patches, as its pyproject.toml names them."""
    project = nox.project.load_toml(ROOT / "packages" / package / "pyproject.toml")["project"]
    extras = project.get("optional-dependencies", {})
    return frozenset(
        Requirement(text).name for extra in ("upstream", "upstream-any") for text in extras.get(extra, ())
    )


def versions_of(environment: Environment) -> dict[str, str]:
    """The upstream versions that `environment` pins, by distribution."""
    aside = (requirement for requirements in environment.aside.values() for requirement in requirements)
    built_here = (*environment.without_build_isolation, *environment.without_compiling)
    pinned = (*environment.exact_pins, *built_here, *aside)
    exact = (re.match(r"([\w.-]+)==(.+)$", requirement) for requirement in pinned)
    named = {m[1].replace("_", "-"): m[2] for m in exact if m}
    upstream = frozenset().union(*map(patched_by, PACKAGES))
    return {name: version for name, version in sorted(named.items()) if name in upstream}


def rows_of_last_run(environments: Iterable[Environment], today: str) -> list[Row]:
    """A row for every package and environment that there are results of; what never started is of `today`."""
    rows = []
    for environment in environments:
        for package in environment.tested_packages:
            files = [results.path_of(environment.name, folder) for folder in environment.tests_of(package)]
            if not all(file.is_file() for file in files):
                continue
            counts = sum(map(results.counts_of, files), results.Counts())
            date = max(results.date_of(file) or today for file in files)
            rows.append(
                Row(package, environment.name, environment.python, versions_of(environment),
                    counts.passed, counts.failed, counts.skipped, date,
                    environment.refused, environment.supported_part)
            )  # fmt: skip
    return rows


def read(file: Path) -> list[Row]:
    return [Row(**row) for row in json.loads(file.read_text(encoding="utf-8"))] if file.is_file() else []


def updated(old: Iterable[Row], new: Iterable[Row], environments: Mapping[str, Environment]) -> list[Row]:
    """`new` over `old`, without what no environment stands for any more."""
    rows = {(row.package, row.environment): row for row in (*old, *new)}
    kept = (
        row
        for row in rows.values()
        if row.environment in environments and row.versions == versions_of(environments[row.environment])
    )
    return sorted(kept, key=lambda row: row.order)


def write(rows: Iterable[Row], file: Path) -> None:
    data = [dataclasses.asdict(row) for row in rows]
    file.write_text(json.dumps(data, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def page(rows: Iterable[Row]) -> str:
    """The Markdown page with a table for each package."""
    text = [HEAD]
    by_package: dict[str, list[Row]] = {}
    for row in rows:
        by_package.setdefault(row.package, []).append(row)
    for package, its_rows in sorted(by_package.items()):
        text += [f"\n## {package}\n", "| upstream | Python | tests | last run | |", "|---|---|---|---|---|"]
        for row in its_rows:
            versions = ", ".join(map(" ".join, row.ordered_versions)) or "none"
            counts = f"{row.passed} passed, {row.failed} failed, {row.skipped} skipped"
            text.append(f"| {versions} | {row.python} | {counts} | {row.date} | {row.verdict} |")
    return "\n".join(text) + "\n"


def record(environments: Mapping[str, Environment]) -> list[Row]:
    """Take the results in `.nox/results` into the record and the page; return the rows that changed."""
    today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    new = rows_of_last_run(environments.values(), today)
    rows = updated(read(RECORD), new, environments)
    write(rows, RECORD)
    PAGE.write_text(page(rows), encoding="utf-8")
    return new
