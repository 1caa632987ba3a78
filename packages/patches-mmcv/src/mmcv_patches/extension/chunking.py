"""Bounded memory: work on a large input is split into ranges whose temporaries fit a budget."""

from __future__ import annotations

from typing import Iterator

__all__ = ["MAX_TEMPORARY_ELEMENTS", "row_ranges"]

#: The largest temporary tensor that one step of an operator should allocate, in elements (64 MiB of float32).
MAX_TEMPORARY_ELEMENTS = 1 << 24


def row_ranges(
    rows: int, elements_per_row: int, max_elements: int = MAX_TEMPORARY_ELEMENTS
) -> Iterator[tuple[int, int]]:
    """Split ``range(rows)`` into consecutive ``(start, stop)``.

    A range has one row at least and otherwise no more than ``max_elements`` elements; ``elements_per_row`` is
    the number of elements of the largest temporary that one row needs.
    """
    step = max(1, max_elements // max(1, elements_per_row))
    for start in range(0, rows, step):
        yield start, min(start + step, rows)
