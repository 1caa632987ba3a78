"""Which patches were applied and then never called."""

from __future__ import annotations

from typing import NamedTuple, Sequence

from .run_report import RunReport

_NAMED_AT_MOST = 3


class IdleGroup(NamedTuple):
    """The targets of one group that were never called; ``total`` is how many of it were watched."""

    group: str
    targets: tuple[str, ...]
    total: int


def never_called(report: RunReport) -> list[IdleGroup]:
    """The applied targets whose replacement no process called, by group. Only functions are watched."""
    groups: dict[str, dict[str, bool]] = {}
    watched = report.watched
    for record in report.processes:
        for result in record["results"]:
            target = result["alias_of"] or result["name"]
            if result["status"] == "applied" and target in watched:
                groups.setdefault(result["group"], {})[target] = target in report.called
    found = []
    for group, called in groups.items():
        idle = tuple(target for target, was_called in called.items() if not was_called)
        if idle:
            found.append(IdleGroup(group, idle, len(called)))
    return found


def render_never_called(idle: Sequence[IdleGroup]) -> str:
    """One line per group."""
    lines = ["applied but never called:"]
    for group in idle:
        named = ", ".join(group.targets[:_NAMED_AT_MOST])
        more = len(group.targets) - _NAMED_AT_MOST
        share = f"{len(group.targets)} of {group.total}: " if group.total > 1 else ""
        lines.append(
            f"  {group.group or 'single patches'}: {share}{named}" + f" and {more} more" * (more > 0)
        )
    return "\n".join(lines)
