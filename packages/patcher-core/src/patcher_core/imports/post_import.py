"""Callbacks that run right after a module's code ran, before whoever imports it sees it."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING

from .finder import Observer, finder
from .names import checked_dotted_name

if TYPE_CHECKING:
    from collections.abc import Callable

_WILDCARDS = frozenset("*?[")


class Subscription(Observer):
    """A callback for the imports of one module, or of all modules whose name matches a pattern."""

    def __init__(self, name: str, callback: Callable[[types.ModuleType], object]) -> None:
        super().__init__(callback)
        self.name = name
        self.is_pattern = bool(_WILDCARDS & set(name))
        if self.is_pattern:
            import fnmatch
            import re

            self._matches = re.compile(fnmatch.translate(name)).match
        finder.add_observer(name, self, is_pattern=self.is_pattern)

    def observes(self, fullname: str) -> bool:
        return self._matches(fullname) is not None

    def cancel(self) -> None:
        """No callback from now on; may be called twice, and from within the callback."""
        self.is_cancelled = True
        finder.remove_observer(self.name, self)


def subscribe(name: str, callback: Callable[[types.ModuleType], object]) -> Subscription:
    """Call ``callback(module)`` right after the code of each module called ``name`` ran, at a reload too.

    The import of the module is not finished then: no importer has seen it, and an exception of the callback
    becomes the importer's. What is handed over is what stands in ``sys.modules`` at that moment, which is not
    always what was executed; its loader is the real one. A module that is imported already is not handed
    over, and modules that do not come through the import system (``runpy``'s main module,
    ``spec_from_file_location``) never are.

    Args:
        name: a dotted name, or a pattern of the :mod:`fnmatch` kind whose first segment has no wildcard, such
            as ``"transformers.models.*.modeling_*"``; ``*`` matches dots as well.
        callback: is called with the module.

    Raises:
        TypeError, ValueError: an argument has the wrong type, or ``name`` is malformed.
    """
    if not callable(callback):
        raise TypeError(f"callback must be callable, got {callback!r}")
    if isinstance(name, str) and _WILDCARDS & set(name):
        checked_dotted_name(f"the first segment of the pattern {name!r}", name.partition(".")[0])
    else:
        checked_dotted_name("name", name)
    return Subscription(name, callback)
