"""Which replacements were ever called. Off by default; then replacements are installed as they are."""

from __future__ import annotations

import contextlib
import inspect
import os
from types import FunctionType
from typing import Any, Collection

from . import replacing
from .dispatch import make_forwarder

#: What a call of such a function means is not decided by the call.
_NOT_PLAIN = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR

_watched: set[str] = set()
_called: set[str] = set()
_file = ""


def watch_calls(file: str) -> None:
    """Watch every function that is put in from now on; the target of each that is called becomes a line of ``file``.

    Several processes may share the file: a line is written at the first call in each process, at once, so that it is
    there however the process ends.
    """
    global _file
    _file = file
    replacing.call_watcher = watched
    os.register_at_fork(after_in_child=_called.clear)


def watched_targets() -> Collection[str]:
    """The targets that are watched in this process; a class or a generator function is not."""
    return _watched


def watched(target: str, original: Any, replacement: Any) -> Any:
    """A function that notes its first call and passes on to ``replacement``; what cannot be watched as it is.

    It carries the identity of ``original``, so that it pickles by reference.
    """
    if type(replacement) is not FunctionType or replacement.__code__.co_flags & _NOT_PLAIN:
        return replacement
    _watched.add(target)
    called = _called

    def note_call() -> bool:
        if target not in called:
            called.add(target)
            _append(target)
        return True

    # Evaluated by torch.compile when it traces, and taken as a constant, as in dispatch.py: it breaks no graph.
    note_call._dynamo_marked_constant = True  # type: ignore[attr-defined]

    return make_forwarder(
        original if isinstance(original, FunctionType) else replacement, replacement, note_call
    )


def _append(target: str) -> None:
    with contextlib.suppress(OSError):  # a process that outlives the run finds no folder any more
        descriptor = os.open(_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, f"{target}\n".encode())
        finally:
            os.close(descriptor)
