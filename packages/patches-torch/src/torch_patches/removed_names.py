"""Names that a library has removed, put back where programs still use them."""

from __future__ import annotations

import sys
from typing import Any, Mapping

from patcher_core import AtomicPatch, Patch


def is_absent(target: str) -> bool:
    """True if the module has no such name of its own. Its ``__getattr__`` is not asked: asking may warn."""
    module, _, name = target.rpartition(".")
    return name not in vars(sys.modules[module])


class NumpyCompat(Patch):
    """``numpy.bool``, ``numpy.float``, ``numpy.int`` and the other aliases of Python's own types.

    Each is put in only where numpy has no such name: numpy 2 has a ``numpy.bool`` and a ``numpy.long`` of its own. Up
    to numpy 1.23 the names exist with a deprecation warning, which goes away.
    """

    name = "numpy_compat"
    legacy_name = "numpy_type"
    library = "numpy"
    apply_before_collect = True
    why = "libraries written for numpy before 1.24 use names that it removed"
    upstream = "https://numpy.org/doc/stable/release/1.20.0-notes.html#deprecations, expired in 1.24.0"
    until = "no library in use names them"

    #: what each name meant in numpy 1.19
    types: Mapping[str, type] = {
        "bool": bool,
        "int": int,
        "float": float,
        "complex": complex,
        "object": object,
        "str": str,
        "long": int,
        "unicode": str,
    }

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        return [
            AtomicPatch(f"numpy.{name}", meant, create=True, precheck=is_absent)
            for name, meant in cls.types.items()
        ]


class CollectionsCompat(Patch):
    """``collections.Iterable`` and the other abstract base classes that moved to ``collections.abc``."""

    name = "collections_compat"
    legacy_name = "Iterable"
    library = "collections"
    apply_before_collect = True
    why = "libraries written for Python before 3.10 take abstract base classes from collections"
    upstream = "https://docs.python.org/3/whatsnew/3.10.html#removed"
    until = "no library in use takes them from there"

    #: the names that ``collections`` offered in CPython 3.9
    names = (
        "Awaitable",
        "Coroutine",
        "AsyncIterable",
        "AsyncIterator",
        "AsyncGenerator",
        "Hashable",
        "Iterable",
        "Iterator",
        "Generator",
        "Reversible",
        "Sized",
        "Container",
        "Callable",
        "Collection",
        "Set",
        "MutableSet",
        "Mapping",
        "MutableMapping",
        "MappingView",
        "KeysView",
        "ItemsView",
        "ValuesView",
        "Sequence",
        "MutableSequence",
        "ByteString",
    )

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        return [
            AtomicPatch(f"collections.{name}", f"collections.abc.{name}", create=True, precheck=is_absent)
            for name in cls.names
        ]
