"""What two equal functions measure on this machine: no figure can be trusted more closely than this."""

from __future__ import annotations

from typing import Iterator

from .paired import Figure, paired


def work() -> int:
    return sum(range(100))


def same_work() -> int:
    return sum(range(100))


def figures() -> Iterator[Figure]:
    yield Figure("noise: two equal functions", paired(work, same_work), None, "the same")
