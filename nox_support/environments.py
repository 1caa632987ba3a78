"""The environments of `environments.toml` and of each package's `matrix.toml`: what is installed together and
which tests run there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Iterator

import nox.project

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = tuple(sorted(folder.parent.name for folder in ROOT.glob("packages/*/pyproject.toml")))


@dataclass(frozen=True)
class Environment:
    """One environment on one Python. `environments.toml` says what each field means.

    `siblings` are the Pythons that the same environment is made on, where there are several.
    """

    name: str
    python: str
    siblings: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    local: tuple[str, ...] = ()
    without_dependencies: tuple[str, ...] = ()
    without_build_isolation: tuple[str, ...] = ()
    without_compiling: dict[str, list[str]] = field(default_factory=dict)
    cuda_stand_ins: bool = False
    aside: dict[str, list[str]] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    tests: tuple[str, ...] = ()
    ignore_tests: tuple[str, ...] = ()
    only_in_matrix: bool = False
    refused: str = ""
    supported_part: str = ""

    @property
    def exact_pins(self) -> tuple[str, ...]:
        """Requirements of the form `name==version`: they hold in every later install as well."""
        requirements = (*self.without_dependencies, *self.packages)
        return tuple(r for r in requirements if re.match(r"^[\w.-]+==[^;*]+$", r))

    @property
    def tested_packages(self) -> tuple[str, ...]:
        """The packages of this repository whose tests run here."""
        return tuple(package for package in PACKAGES if self.tests_of(package))

    def tests_of(self, package: str | None) -> tuple[str, ...]:
        """Test folders of one package, or all of them for None."""
        return tuple(t for t in self.tests if package is None or t.startswith(f"packages/{package}/"))


def _complete(name: str, entries: dict[str, dict[str, object]]) -> dict[str, object]:
    """The table of that name, with what it has from the one that it is `like`."""
    entry = dict(entries[name])
    like = entry.pop("like", None)
    if like is None:
        return entry
    if like not in entries or "like" in entries[like]:
        raise ValueError(f"environment {name} is like {like!r}, which is no table that stands for itself")
    return {**entries[like], **entry}


def _variants(name: str, entry: dict[str, object]) -> Iterator[tuple[str, dict[str, object]]]:
    """The names and tables that a table with `variants` stands for, or itself alone."""
    common = {key: value for key, value in entry.items() if key != "variants"}
    if "variants" not in entry:
        yield name, common
    for variant, requirements in entry.get("variants", {}).items():
        yield variant, {**common, "packages": [*common.get("packages", ()), *requirements]}


def _expand(name: str, entry: dict[str, object], test_packages: list[str]) -> list[Environment]:
    fields = {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}
    pythons = fields.pop("pythons", ())
    if not pythons:
        raise ValueError(f"environment {name} names no Python: add `pythons = [...]` to its table")
    unknown = sorted(set(fields) - set(Environment.__dataclass_fields__))
    if unknown:
        raise ValueError(f"the table of environment {name} has unknown keys {', '.join(unknown)}")
    if fields.get("tests"):
        fields["packages"] = (*fields.get("packages", ()), *test_packages)
    if len(pythons) == 1:
        return [Environment(name=name, python=pythons[0], **fields)]
    return [
        Environment(name=f"{name}-{python}", python=python, siblings=pythons, **fields) for python in pythons
    ]


def environments(entries: dict[str, dict[str, object]], test_packages: list[str]) -> dict[str, Environment]:
    """The environments of the tables in `entries`, by name.

    Where tests run, `test_packages` are installed too. Raises ValueError for a key that does not exist, for a name that
    two of them have, and for one that is like no other.
    """
    tables = (table for name in entries for table in _variants(name, _complete(name, entries)))
    expanded = [e for name, entry in tables for e in _expand(name, entry, test_packages)]
    by_name = {environment.name: environment for environment in expanded}
    if len(by_name) < len(expanded):
        names = [environment.name for environment in expanded]
        shared = sorted(name for name in by_name if names.count(name) > 1)
        raise ValueError(f"two environments have one name: {', '.join(shared)}")
    return by_name


def _tables() -> dict[str, dict[str, object]]:
    """The tables of every file, by name. Raises ValueError for a name that two files use."""
    tables: dict[str, dict[str, object]] = dict(_DATA["environments"])
    for file in sorted(ROOT.glob("packages/*/matrix.toml")):
        for name, table in nox.project.load_toml(file).items():
            if name in tables:
                raise ValueError(f"packages/{file.parent.name}/matrix.toml: [{name}] stands elsewhere too")
            tables[name] = table
    return tables


_DATA = nox.project.load_toml(ROOT / "environments.toml")
BUILD_CONSTRAINTS: tuple[str, ...] = tuple(_DATA["build-constraints"])
OVERRIDES: tuple[str, ...] = tuple(_DATA["overrides"])
ENVIRONMENTS = environments(_tables(), _DATA["test-packages"])
