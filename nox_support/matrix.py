"""The supported versions: what `nox -s matrix` ran, kept in a file, and the table that the docs show of it.

A row is one package's tests in one environment. Upstream versions count as supported if the row passed; a row whose
environment has other versions by now, or is gone, is left out.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Iterable, Mapping

import nox.project
from packaging.requirements import Requirement

from . import results
from .environments import PACKAGES, ROOT, Environment

RECORD = ROOT / "docs" / "supported-versions.json"
PAGE = ROOT / "docs" / "supported-versions.md"
HEAD = """# Supported versions

Each line was run: the tests of that patch set with those upstream versions, on a CPU, with the date and the counts.
`python -m nox -s matrix -- PACKAGE` runs them again and writes this page. What a patch set admits at all stands in
its `pyproject.toml`; a version between two lines is likely to work and not proven.
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

    @property
    def supported(self) -> bool:
        return self.passed > 0 and self.failed == 0


def upstream_names() -> frozenset[str]:
    """Distributions that any package of this repository patches, as its pyproject.toml names them."""
    names = set()
    for package in PACKAGES:
        project = nox.project.load_toml(ROOT / "packages" / package / "pyproject.toml")["project"]
        extras = project.get("optional-dependencies", {})
        names |= {
            Requirement(text).name for extra in ("upstream", "upstream-any") for text in extras.get(extra, ())
        }
    return frozenset(names)


def versions_of(environment: Environment) -> dict[str, str]:
    """The upstream versions that `environment` pins, by distribution."""
    aside = (requirement for requirements in environment.aside.values() for requirement in requirements)
    pinned = (*environment.exact_pins, *environment.without_build_isolation, *aside)
    exact = (re.match(r"([\w.-]+)==(.+)$", requirement) for requirement in pinned)
    named = {m[1].replace("_", "-"): m[2] for m in exact if m}
    return {name: version for name, version in sorted(named.items()) if name in upstream_names()}


def rows_of_last_run(environments: Iterable[Environment], date: str) -> list[Row]:
    """A row for every package and environment that the last `nox` call has results of."""
    rows = []
    for environment in environments:
        for package in environment.tested_packages:
            files = [results.path_of(environment.name, folder) for folder in environment.tests_of(package)]
            if not all(file.is_file() for file in files):
                continue
            counts = sum(map(results.counts_of, files), results.Counts())
            rows.append(
                Row(package, environment.name, environment.python, versions_of(environment),
                    counts.passed, counts.failed, counts.skipped, date)
            )  # fmt: skip
    return rows


def read(file: Path) -> list[Row]:
    return [Row(**row) for row in json.loads(file.read_text(encoding="utf-8"))] if file.is_file() else []


def updated(old: Iterable[Row], new: Iterable[Row], environments: Mapping[str, Environment]) -> list[Row]:
    """`new` over `old`, without what no environment stands for any more."""
    rows = {(row.package, row.environment): row for row in (*old, *new)}
    return [
        row
        for _, row in sorted(rows.items())
        if row.environment in environments and row.versions == versions_of(environments[row.environment])
    ]


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
            versions = ", ".join(f"{name} {version}" for name, version in row.versions.items()) or "none"
            counts = f"{row.passed} passed, {row.failed} failed, {row.skipped} skipped"
            verdict = "supported" if row.supported else "**not supported**"
            text.append(f"| {versions} | {row.python} | {counts} | {row.date} | {verdict} |")
    return "\n".join(text) + "\n"


def record(environments: Mapping[str, Environment]) -> list[Row]:
    """Take the results of the last `nox` call into the record and the page; return the rows that changed."""
    date = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    new = rows_of_last_run(environments.values(), date)
    rows = updated(read(RECORD), new, environments)
    write(rows, RECORD)
    PAGE.write_text(page(rows), encoding="utf-8")
    return new
