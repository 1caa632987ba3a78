"""Operator schemas of several torch_npu versions, and the text file that holds them.

The first line names the versions. Each further line is a schema after one character per version, `x` where that version
registers it and `-` where it does not.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Mapping

TABLE_FILE = Path(__file__).with_name("torch_npu_schemas.txt")


class SchemaTable:
    """The schemas that each version registers."""

    def __init__(self, schemas: Mapping[str, set[str]]) -> None:
        self._schemas = {version: frozenset(texts) for version, texts in schemas.items()}

    @property
    def versions(self) -> tuple[str, ...]:
        return tuple(self._schemas)

    def of_version(self, version: str) -> frozenset[str]:
        """Every schema text of one version."""
        return self._schemas[version]

    def overloads(self, version: str, operator: str) -> list[str]:
        """The schemas of `operator` (without namespace and overload name) in one version."""
        return sorted(
            text for text in self._schemas[version] if text.partition("(")[0].partition(".")[0] == operator
        )


def format_table(table: SchemaTable) -> str:
    lines = [" ".join(table.versions)]
    by_version = [table.of_version(version) for version in table.versions]
    for text in sorted(frozenset().union(*by_version)):
        marks = "".join("x" if text in schemas else "-" for schemas in by_version)
        lines.append(f"{marks} {text}")
    return "\n".join(lines) + "\n"


def parse_table(text: str) -> SchemaTable:
    header, *lines = text.splitlines()
    schemas: dict[str, set[str]] = {version: set() for version in header.split()}
    for line in lines:
        marks, _, schema = line.partition(" ")
        for version, mark in zip(schemas, marks):
            if mark == "x":
                schemas[version].add(schema)
    return SchemaTable(schemas)


@lru_cache(maxsize=None)
def known_schemas() -> SchemaTable:
    """The table that this package carries."""
    return parse_table(TABLE_FILE.read_text(encoding="utf-8"))
