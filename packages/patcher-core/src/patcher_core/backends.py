"""Which implementation a patch uses here: ``npu``, upstream's own, or ``portable``.

The core knows the two names that need no hardware: ``portable`` (plain code, runs anywhere) and ``original``
(upstream's own implementation). Others are registered by patch sets, through the entry-point group
``patcher.backends`` or :func:`register_backend`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Callable, Mapping, NamedTuple

if TYPE_CHECKING:
    from .discovery import EntryPoint

PORTABLE = "portable"
ORIGINAL = "original"
ENTRY_POINT_GROUP = "patcher.backends"
ENVIRONMENT_VARIABLE = "PATCHER_BACKEND"

__all__ = ["backend_of", "known_backends", "register_backend", "unavailable"]

_probes: dict[str, Callable[[], str]] = {}


class Choice(NamedTuple):
    """The implementation taken, "" for none, and why."""

    backend: str
    why: str


def register_backend(name: str, probe: Callable[[], str]) -> None:
    """Make a backend known.

    Args:
        name: what patches list in ``Patch.backends``.
        probe: gives back "" where the backend can be used here, else the reason why not, such as
            ``"torch_npu is not installed"``.
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise ValueError(f"the name of a backend must be an identifier, got {name!r}")
    if not callable(probe):
        raise TypeError(f"the probe of backend {name!r} must be callable, got {probe!r}")
    _probes[name] = probe


def known_backends() -> tuple[str, ...]:
    """The names of all backends that are known here."""
    _load_entry_points()
    return (*_probes, PORTABLE, ORIGINAL)


def checked_backend(name: Any, argument: str = "backend") -> str | None:
    """``name`` if it is a known backend or None; ValueError that lists the known ones otherwise."""
    if name is None:
        return None
    if isinstance(name, str) and name in known_backends():
        return name
    raise ValueError(f"{argument}={name!r} is not a known backend; known here: {', '.join(known_backends())}")


def choose(
    offered: tuple[str, ...],
    *,
    forced: str | None = None,
    options: Mapping[str, Any] | None = None,
    original_runs_here: Callable[[], bool] | None = None,
) -> Choice:
    """The first of the ``offered`` backends that can be used here.

    Args:
        forced: what the patcher was told to use. ``options["backend"]`` comes before it, ``PATCHER_BACKEND`` after.
        original_runs_here: asked before ``portable``; where it is true upstream is left alone.
    """
    wanted = (options or {}).get("backend") or forced or os.environ.get(ENVIRONMENT_VARIABLE) or None
    checked_backend(wanted)
    if wanted is not None:
        return _forced(wanted, offered)
    reasons: list[str] = []
    for backend in offered:
        if backend == PORTABLE and original_runs_here is not None and original_runs_here():
            return Choice(ORIGINAL, "upstream's own implementation runs here")
        reason = unavailable(backend)
        if not reason:
            return Choice(backend, "; ".join(reasons))
        reasons.append(f"{backend}: {reason}")
    return Choice("", f"needs {' or '.join(offered)} ({'; '.join(reasons)})")


def _forced(wanted: str, offered: tuple[str, ...]) -> Choice:
    if wanted == ORIGINAL:
        return Choice(ORIGINAL, "as told")
    if wanted not in offered:
        return Choice("", f"has no {wanted} implementation, only {' and '.join(offered)}")
    reason = unavailable(wanted)
    return Choice("", f"needs {wanted} ({reason})") if reason else Choice(wanted, "as told")


def backend_of(options: Mapping[str, Any] | None) -> str:
    """In a group's ``patches(options)``: the backend that the engine chose; ``portable`` where it is called by hand."""
    return str((options or {}).get("backend", PORTABLE))


def unavailable(backend: str) -> str:
    """Why ``backend`` cannot be used here; "" where it can."""
    if backend in (PORTABLE, ORIGINAL):
        return ""
    _load_entry_points()
    probe = _probes.get(backend)
    if probe is None:
        return "no installed patch set provides it"
    try:
        return probe()
    except Exception as error:
        return f"its probe raised {type(error).__name__}: {error}"


def _load_entry_points() -> None:
    from .discovery import entry_points

    for entry_point in entry_points(ENTRY_POINT_GROUP):
        _probes.setdefault(entry_point.name, _probe_of(entry_point))


def _probe_of(entry_point: EntryPoint) -> Callable[[], str]:
    """The probe behind an entry point, loaded when it is first asked."""

    def probe() -> str:
        loaded = entry_point.load()
        if not callable(loaded):
            return f"{entry_point.value} is not a probe"
        reason = loaded()
        return (
            reason if isinstance(reason, str) else f"{entry_point.value} gave back {reason!r}, not a reason"
        )

    return probe
