"""The listing of ``print_info()``: every patch of a patcher with its state, by library."""

from __future__ import annotations

from typing import Callable

from ..installation import Entry
from ..patches import AtomicPatch
from ..results import PatchResult, PatchStatus

#: Of the results of one entry the first of these is shown.
_BY_WEIGHT = (PatchStatus.APPLIED, PatchStatus.FAILED, PatchStatus.SKIPPED, PatchStatus.PENDING)


def render_info(entries: list[Entry], is_disabled: Callable[[Entry], bool], diff: bool = False) -> str:
    """One line per patch, ``[applied]``, ``[pending]`` or ``[disabled]``, grouped by library.

    A patch that was tried and is not in force shows its status instead, with the reason: a failure before all else.
    """
    by_library: dict[str, list[str]] = {}
    for entry in entries:
        _add(entry, is_disabled, diff, is_disabled(entry), by_library)
    return "\n".join(
        line for library, lines in by_library.items() for line in [f"[{library or 'other'}]", *lines]
    )


def _add(
    entry: Entry,
    is_disabled: Callable[[Entry], bool],
    diff: bool,
    disabled: bool,
    by_library: dict[str, list[str]],
) -> None:
    lines = by_library.setdefault(entry.library, [])
    if entry.is_group:
        lines.append(f"  {_state(entry, disabled)} {entry.name}")
    for member in entry.members:
        _add(member, is_disabled, diff, disabled or is_disabled(member), by_library)
    if not entry.is_group:
        lines.append(f"    {_state(entry, disabled)} {_text(entry, diff and not disabled)}")


def _text(entry: Entry, diff: bool) -> str:
    text: str = (
        entry.item.get_info(show_diff=True) if diff and isinstance(entry.item, AtomicPatch) else entry.name
    )
    return text


def _state(entry: Entry, disabled: bool) -> str:
    if disabled:
        return "[disabled]"
    first_with: dict[PatchStatus, PatchResult] = {}
    for result in entry.results():
        first_with.setdefault(result.status, result)
    shown = next((first_with[status] for status in _BY_WEIGHT if status in first_with), None)
    if shown is None:
        return "[pending]"
    if shown.status is PatchStatus.APPLIED or not shown.reason:
        return f"[{shown.status}]"
    return f"[{shown.status}: {shown.reason}]"
