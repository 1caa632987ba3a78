"""What torch.compile has to know about patches: dynamo's table of known functions, and what it compiled already."""

from __future__ import annotations

import functools
import sys
from types import ModuleType
from typing import Any

from patcher_core import EnvironmentStep, patcher_logger
from patcher_core.descriptors import underlying
from patcher_core.imports import post_import
from patcher_core.journal import journal

_TABLE_MODULE = "torch._dynamo.trace_rules"


class TorchCompile(EnvironmentStep):
    """Keeps torch.compile right while patches come and go.

    Dynamo (torch 2.2 to 2.13) builds a table of the functions of torch, by identity, when it is imported. Built
    while ``torch.matmul`` is patched, it would know the patch in place of the original, and compiling would fail for
    good after ``restore()``. So it is built from the originals.

    Code that is compiled is guarded against a change of the functions it calls, but not of the methods of the classes
    it uses: it would go on with what it was compiled with. So it is dropped, and compiled again at its next call.
    """

    name = "torch_compile"
    library = "torch"
    why = "compiled code would keep patches that are gone, and miss patches that are new"

    _changes_seen = 0
    _subscription: Any = None

    @classmethod
    def prepare(cls) -> None:
        if cls._subscription is None:
            cls._subscription = post_import.subscribe(_TABLE_MODULE, build_table_from_originals)
            if _TABLE_MODULE in sys.modules:
                build_table_from_originals(sys.modules[_TABLE_MODULE])

    @classmethod
    def patched(cls, written: bool) -> str:
        if journal.changes == cls._changes_seen:
            return ""
        cls._changes_seen = journal.changes
        told = drop_compiled_code()
        if told and written:
            patcher_logger.warning(f"{told}. Call apply() before anything is compiled.")
        return told


def build_table_from_originals(trace_rules: ModuleType) -> None:
    """Let dynamo see the original of every patched function of torch whenever it builds its table."""
    load_object = getattr(trace_rules, "load_object", None)
    if load_object is None:
        patcher_logger.warning(
            f"this torch has no {_TABLE_MODULE}.load_object: compile once before apply(), or torch.compile may fail"
            " after restore()"
        )
        return
    known: dict[int, Any] = {}
    known_at = -1

    @functools.wraps(load_object)
    def load_original(name: str) -> Any:
        nonlocal known, known_at
        if known_at != journal.changes:
            known, known_at = originals(), journal.changes
        found = load_object(name)
        return known.get(id(found), found)

    trace_rules.load_object = load_original  # type: ignore[attr-defined]


def originals() -> dict[int, Any]:
    """What was replaced, by the identity of what is there instead."""
    return {
        id(underlying(layer.value)): underlying(slot.base)
        for slot in journal.slots
        if slot.attribute.path.startswith("torch.")
        for layer in slot.layers
        if layer.holder is not None
    }


def drop_compiled_code() -> str:
    """Drop what dynamo compiled so far; gives back what was done, "" if nothing was compiled."""
    convert_frame = sys.modules.get("torch._dynamo.convert_frame")
    if convert_frame is None:
        return ""
    count = len(convert_frame.input_codes.seen)
    if not count:
        return ""
    import torch

    if torch._guards.CompileContext.try_get() is not None:
        return (
            "patches changed while torch.compile was at work; call torch._dynamo.reset() afterwards, or apply patches"
            " before anything is compiled"
        )
    torch._dynamo.reset()
    return f"torch.compile had compiled {count} functions before patches changed; they will be compiled again"
