"""What comes after attributes were written: copies elsewhere follow, waiting functions get their lent imports."""

from __future__ import annotations

import contextlib
import sys
from typing import Any, Iterable, Iterator, Sequence

from .attributes import ABSENT
from .events import PatchError, patcher_logger
from .installation import Installation
from .journal import Change, Layer


def follow_copies(changes: Sequence[Change], modules: Iterable[tuple[str, Any]]) -> None:
    """Rebind the copies that others took of what was replaced, and name those that are kept on purpose."""
    if not any(change.old is not ABSENT or change.attribute.copies for change in changes):
        return
    from .discovery import patch_set_roots
    from .references import follow

    _, kept = follow(changes, modules, patch_set_roots())
    for copy in kept:
        patcher_logger.debug(f"{copy.path} keeps what {copy.transition.attribute.path} held before")


def lend_imports(installations: Iterable[Installation]) -> None:
    """Let functions that wait for lent imports have them now, before anything is compiled."""
    lent = sys.modules.get("patcher_core.lent_imports")
    if lent is None:
        return
    layers = [line for one in installations for line in one.all_lines() if isinstance(line, Layer)]
    for function, error in lent.lend_all([part for layer in layers for part in _called_through(layer)]):
        patcher_logger.warning(f"with_imports of {getattr(function, '__qualname__', function)}: {error}")


def _called_through(layer: Layer) -> Iterator[Any]:
    """What a call of the layer's value may run; a dispatcher shows neither of the functions that it calls."""
    yield layer.new
    yield getattr(layer.patch, "runtime_check", None)
    with contextlib.suppress(PatchError):  # a path that resolved when written need not now
        yield getattr(layer.patch, "replacement", None)
