"""What commands print: with rich where it is installed, as plain text otherwise.

``NO_COLOR`` and output that is no terminal mean no colours, with either.
"""

from __future__ import annotations

import sys
from typing import Any, Iterable, Sequence

#: Styles of status words, by word; rich's names.
STYLES = {
    "applied": "green",
    "safe": "green",
    "ok": "green",
    "default": "green",
    "pending": "yellow",
    "skipped": "yellow",
    "changed": "red",
    "missing": "red",
    "failed": "red",
    "problem": "bold red",
}


class Output:
    """Plain text on standard output."""

    def heading(self, text: str) -> None:
        print(f"\n{text}")

    def line(self, text: str = "") -> None:
        print(text)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Rows under ``columns``; the last column may be as wide as it likes."""
        listed = [tuple(columns), *(tuple(row) for row in rows)]
        widths = [max(len(row[index]) for row in listed) for index in range(len(columns) - 1)]
        for row in listed:
            cells = [cell.ljust(width) for cell, width in zip(row, widths)]
            print("  " + "  ".join([*cells, row[-1]]).rstrip())

    def code(self, text: str, language: str = "python") -> None:
        """Source code, or a ``diff``."""
        print(text)


class RichOutput(Output):
    """The same through rich."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(highlight=False, soft_wrap=True)

    def heading(self, text: str) -> None:
        from rich.text import Text

        self._console.print(Text(f"\n{text}", style="bold"))

    def line(self, text: str = "") -> None:
        self._console.print(_styled(text))

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        from rich.table import Table

        table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
        for index, column in enumerate(columns):
            table.add_column(column, overflow="fold", no_wrap=index == 0)
        for row in rows:
            table.add_row(*map(_styled, row))
        self._console.print(table, soft_wrap=False)

    def code(self, text: str, language: str = "python") -> None:
        from rich.syntax import Syntax

        self._console.print(Syntax(text, language, background_color="default"), soft_wrap=True)


def output() -> Output:
    """Rich output on a terminal where rich is installed, plain output otherwise."""
    if not sys.stdout.isatty():
        return Output()
    try:
        return RichOutput()
    except ImportError:
        return Output()


def _styled(text: str) -> Any:
    from rich.text import Text

    return Text(text, style=STYLES.get(text.partition(" ")[0].rstrip(":"), ""))
