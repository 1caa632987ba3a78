"""Availability probes: what ``find_spec`` and ``importlib.metadata`` say about a skipped module.

Libraries choose a backend by asking whether a package is there. No stub must be chosen, so for a skipped name

* ``importlib.util.find_spec(name)`` is None, before and after the stub was imported,
* ``importlib.metadata.version(name)`` (and everything else that looks a distribution up by name) raises
  PackageNotFoundError.

``find_spec`` is an :class:`AnsweredFunction`, which reaches all copies that libraries took of it.
importlib.metadata asks every finder on the meta path in turn, so ours, the first, can answer for all of them.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Mapping

from patcher_core.distributions import normalized

from . import scoped_skips
from .answered_functions import AnsweredFunction
from .finder import finder

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import FrameType


def _answer_find_spec(name: str, package: str | None, importer: Mapping[str, Any]) -> ModuleSpec | None:
    from importlib.util import resolve_name

    fullname = resolve_name(name, package) if name.startswith(".") else name
    if finder.is_hidden(fullname) or scoped_skips.is_hidden(fullname, importer):
        return None
    spec: ModuleSpec | None = _find_spec.call_original(name, package)
    return None if spec is not None and finder.is_synthesised_for_hidden(spec) else spec


_find_spec = AnsweredFunction("importlib.util", "find_spec", _answer_find_spec)


def _refuse_hidden_distribution(context: Any) -> None:
    """Raise PackageNotFoundError if ``Distribution.from_name`` looks for that of a skipped module."""
    library = type(context).__module__  # importlib.metadata, or the importlib_metadata backport
    frame: FrameType | None = sys._getframe(1)
    by_name = False
    while frame is not None and frame.f_globals.get("__name__") in (library, finder.__module__):
        by_name = by_name or frame.f_code.co_name == "from_name"
        frame = frame.f_back
    if not by_name or frame is None:
        return
    wanted = normalized(context.name)
    hidden = [source.name for source in finder.hidden_sources()]
    hidden += scoped_skips.hidden_names(frame.f_globals)
    if any(wanted == normalized(name) for name in hidden):
        raise sys.modules[library].PackageNotFoundError(context.name)


def follow_declarations() -> None:
    """Answer probes while anything is skipped, and leave them alone otherwise."""
    if finder.hidden_sources() or scoped_skips.declared():
        finder.set_distribution_probe(_refuse_hidden_distribution)
        _find_spec.activate()
    else:
        finder.set_distribution_probe(None)
        _find_spec.deactivate()
