"""The report of a run as one HTML page that needs nothing else."""

from __future__ import annotations

import difflib
import os
from typing import Any, Iterator, NamedTuple

from ..results import PatchStatus

_TEMPLATES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "templates")
#: Unchanged lines that are shown before and after a change.
_CONTEXT = 3


class MissingJinja(ValueError):
    """Jinja2 is not installed."""


class DiffRow(NamedTuple):
    """One line of a side-by-side diff; ``kind`` is equal, replace, delete, insert or gap."""

    kind: str
    before: str
    after: str


def require_jinja() -> Any:
    """The module Jinja2.

    Raises:
        MissingJinja: it is not installed; the text says how to install it.
    """
    try:
        import jinja2
    except ImportError as error:
        raise MissingJinja("an HTML report needs Jinja2: pip install 'patcher-core[report]'") from error
    return jinja2


def render_html(report: dict[str, Any]) -> str:
    """The page of what :meth:`RunReport.to_dict` gave; every text in it is escaped."""
    jinja2 = require_jinja()
    loader = jinja2.FileSystemLoader(_TEMPLATES)
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["side_by_side"] = side_by_side
    statuses = [
        status.value
        for status in (PatchStatus.APPLIED, PatchStatus.PENDING, PatchStatus.SKIPPED, PatchStatus.FAILED)
    ]
    text: str = environment.get_template("report.html").render(report=report, statuses=statuses)
    return text


def side_by_side(sides: dict[str, dict[str, str]]) -> list[DiffRow]:
    """The rows of a diff of both sources, with gaps where nothing changed."""
    before, after = (sides[side]["source"].splitlines() for side in ("original", "replacement"))
    return list(_rows(before, after))


def _rows(before: list[str], after: list[str]) -> Iterator[DiffRow]:
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for number, group in enumerate(matcher.get_grouped_opcodes(_CONTEXT)):
        if number:
            yield DiffRow("gap", "…", "…")
        for kind, before_start, before_end, after_start, after_end in group:
            left, right = before[before_start:before_end], after[after_start:after_end]
            for index in range(max(len(left), len(right))):
                yield DiffRow(
                    kind,
                    left[index] if index < len(left) else "",
                    right[index] if index < len(right) else "",
                )
