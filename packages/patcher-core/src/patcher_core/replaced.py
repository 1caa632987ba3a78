"""What patches replace at this moment, for what knows the functions of a library by identity, as a compiler does."""

from __future__ import annotations

from typing import Any, NamedTuple

from .descriptors import underlying
from .journal import journal


class ReplacedFunction(NamedTuple):
    """One write of a patch on an attribute.

    Attributes:
        path: dotted path of the attribute.
        present: what the patch put there; of a staticmethod, classmethod or property the function.
        original: what the attribute holds without patches, likewise.
    """

    path: str
    present: Any
    original: Any


def replaced_functions(library: str) -> list[ReplacedFunction]:
    """What patches of any patcher have replaced below the import root ``library``; where they stack, each of them."""
    return [
        ReplacedFunction(attribute.path, underlying(layer.new), underlying(attribute.base))
        for attribute in journal.attributes
        if attribute.path.partition(".")[0] == library
        for layer in attribute.layers
        if layer.patch is not None
    ]


def number_of_changes() -> int:
    """Another number whenever a patch was written or taken away, be it of any library."""
    return journal.changes
