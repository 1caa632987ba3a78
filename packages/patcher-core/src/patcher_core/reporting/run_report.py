"""The report of a whole run, made from the records of its processes."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, Collection, Sequence

from ..configuration import Configuration

_PROCESS_FACTS = ("pid", "parent", "role", "rank", "command", "python", "lazy", "apply_seconds", "seconds")


class RunReport:
    """What happened in all processes of one run.

    Args:
        processes: their records, oldest first, see :mod:`patcher_core.bootstrap.records`.
        called: the targets whose replacement one of them, or of their forks, called.
    """

    def __init__(
        self, processes: Sequence[dict[str, Any]], called: Collection[str], configuration: Configuration
    ) -> None:
        self.processes = list(processes)
        self.called = set(called)
        self.configuration = configuration

    @property
    def main(self) -> dict[str, Any]:
        """The record of the program itself: of its first rank, where a launcher started several."""
        programs = [record for record in self.processes if record["role"] == "program"]
        return min(programs or self.processes, key=lambda record: (record["rank"], record["started"]))

    @property
    def watched(self) -> set[str]:
        """The targets of which it is known whether they were called."""
        return {target for record in self.processes for target in record["watched"]}

    def to_dict(self) -> dict[str, Any]:
        """As JSON-compatible values: the main process's results, and every process in short.

        ``called`` of a result is True, False, or None where calls were not watched.
        """
        main = self.main
        return {
            "command": main["command"],
            "configuration": self.configuration._asdict(),
            "results": [{**result, "called": self._called(result)} for result in main["results"]],
            "imports": main["imports"],
            "notes": main["notes"],
            "sources": main.get("sources", {}),
            "processes": [_in_short(record) for record in self.processes],
        }

    def write(self, path: str) -> None:
        """Write it as HTML or JSON, as the file's name says."""
        if path.endswith(".html"):
            from .html import render_html

            text = render_html(self.to_dict())
        else:
            text = json.dumps(self.to_dict(), indent=2)
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(text)

    def _called(self, result: dict[str, Any]) -> bool | None:
        target = result["alias_of"] or result["name"]
        if result["status"] != "applied" or target not in self.watched:
            return None
        return target in self.called


def _in_short(record: dict[str, Any]) -> dict[str, Any]:
    statuses = Counter(result["status"] for result in record["results"])
    return {**{fact: record[fact] for fact in _PROCESS_FACTS}, "statuses": dict(statuses)}
