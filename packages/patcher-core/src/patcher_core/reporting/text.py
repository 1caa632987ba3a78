"""The summary after ``apply()``, as plain text."""

from __future__ import annotations

from typing import Any, Callable, Collection, Iterable, Iterator

from ..results import ApplyReport, PatchResult, PatchStatus

_RULE = "=" * 70


def render_summary(report: ApplyReport, hidden: Collection[str] = ()) -> str:
    """The summary of ``report``; "" if there is nothing to show.

    Args:
        hidden: sections left out: ``applied``, ``skipped``, ``failed``, ``imports``.
    """
    lines: list[str] = []
    if "imports" not in hidden:
        lines += _import_lines(report)
    for section, title, status, mark in (
        ("applied", "Applied Patches", PatchStatus.APPLIED, "+"),
        ("skipped", "Skipped Patches", PatchStatus.SKIPPED, "~"),
        ("failed", "Failed Patches", PatchStatus.FAILED, "!"),
        ("pending", "Pending Patches", PatchStatus.PENDING, "."),
    ):
        shown = [result for result in report.with_status(status) if not result.quiet]
        if section not in hidden and shown:
            lines.append(f"  {title}:")
            lines += _patch_lines(shown, mark)
    if report.notes:
        lines.append("  Notes:")
        lines += [f"    {note}" for note in report.notes]
    if not lines:
        return ""
    return "\n".join([f"\n{_RULE}", "  PATCHER SUMMARY", _RULE, *lines, _RULE])


def _patch_lines(results: Iterable[PatchResult], mark: str) -> Iterator[str]:
    """Results by library, then by group, in the order in which each first appears."""
    for _, of_library in _grouped(results, lambda result: result.module):
        first = of_library[0]
        version = next((result.version for result in of_library if result.version), None)
        yield f"    [{first.module or 'other'}]" + (f" ({version})" if version else "")
        for group, of_group in _grouped(of_library, lambda result: result.group):
            backend = next((result.backend for result in of_group if result.backend), "")
            if group:
                yield f"      {group}:" + (f" {backend}" if backend else "")
            indent = "        " if group else "      "
            for result in of_group:
                yield f"{indent}{mark} {result.name}" + (f" ({result.reason})" if result.reason else "")
                for path in result.rebound:
                    yield f"{indent}    also {path}"


def _import_lines(report: ApplyReport) -> Iterator[str]:
    for title, kind in (
        ("Skipped Imports", "skipped"),
        ("Replaced Imports", "replaced"),
        ("Injected Imports", "injected"),
    ):
        outcomes = [outcome for outcome in report.imports if outcome.kind == kind]
        if outcomes:
            yield f"  {title}:"
        for outcome in outcomes:
            mark = "+" if outcome.status == "active" else "!"
            yield f"    {mark} {outcome.name}" + (f" ({outcome.reason})" if outcome.reason else "")


def _grouped(
    results: Iterable[PatchResult], key: Callable[[PatchResult], Any]
) -> Iterator[tuple[Any, list[PatchResult]]]:
    groups: dict[Any, list[PatchResult]] = {}
    for result in results:
        groups.setdefault(key(result), []).append(result)
    return iter(groups.items())
