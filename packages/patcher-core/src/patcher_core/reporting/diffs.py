"""What a patch changes, as one line and as a source diff."""

from __future__ import annotations

import difflib
import inspect
from typing import TYPE_CHECKING, Any

from ..attributes import ABSENT, TargetError
from ..descriptors import underlying
from ..events import PatchError
from ..targets import locate

if TYPE_CHECKING:
    from ..patches import AtomicPatch


def describe_change(patch: AtomicPatch, show_diff: bool = False) -> str:
    """``target: original -> replacement``, followed by a unified source diff if asked for and possible."""
    original = patch.original
    if original is None:
        try:
            original = underlying(locate(patch.target).read())
        except TargetError as error:
            return f"{patch.target}: {error}"
    try:
        replacement = patch.replacement
    except PatchError as error:
        return f"{patch.target}: {error}"
    if replacement is None:
        replacement = patch.target_wrapper
    line = f"{patch.target}: {qualified_name(original)} -> {qualified_name(replacement)}"
    return f"{line}\n{source_diff(original, underlying(replacement))}" if show_diff else line


def qualified_name(value: Any) -> str:
    """``module.qualname`` of a function or class; a short ``repr`` of anything else."""
    if value is ABSENT:
        return "nothing"
    name = getattr(value, "__qualname__", None)
    if not isinstance(name, str):
        return repr(value)[:80]
    return f"{getattr(value, '__module__', None) or '?'}.{name}"


def source_diff(original: Any, replacement: Any) -> str:
    """A unified diff of the two sources; a line that says why there is none."""
    try:
        before, after = (inspect.getsource(side).splitlines() for side in (original, replacement))
    except (OSError, TypeError) as error:
        return f"(no source diff: {error})"
    names = (qualified_name(original), qualified_name(replacement))
    return "\n".join(difflib.unified_diff(before, after, *names, lineterm=""))
