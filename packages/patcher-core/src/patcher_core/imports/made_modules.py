"""The modules that stand in ``sys.modules`` because of a declaration, and what has to be put back without it."""

from __future__ import annotations

import sys
import types
from _thread import RLock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_MISSING = object()


class MadeModule:
    """A module that a declaration put into ``sys.modules``, and the attribute of its parent that it displaced."""

    def __init__(self, module: types.ModuleType, maker: object) -> None:
        self.module = module
        self.maker = maker
        self.name = module.__name__
        parent_name, _, self._child = self.name.rpartition(".")
        self._parent = sys.modules.get(parent_name)
        self._displaced = namespace_of(self._parent).get(self._child, _MISSING)

    def keep_what_was_displaced_first(self, earlier: MadeModule) -> None:
        """Take over from ``earlier``, which this module came after under the same name."""
        if earlier._parent is self._parent:
            self._displaced = earlier._displaced

    def remove(self) -> None:
        """Take the module out of ``sys.modules`` and its parent, unless somebody else put theirs there."""
        if sys.modules.get(self.name) is self.module:
            del sys.modules[self.name]
        if self._parent is None or namespace_of(self._parent).get(self._child) is not self.module:
            return
        if self._displaced is _MISSING:
            delattr(self._parent, self._child)
        else:
            setattr(self._parent, self._child, self._displaced)


class MadeModules:
    """All of them in this process, by name."""

    def __init__(self) -> None:
        self._made: dict[str, MadeModule] = {}
        # Reentrant: a finalizer may run, and import, whenever memory is allocated.
        self._lock = RLock()

    def record(self, module: types.ModuleType, maker: object) -> None:
        """Remember, before its parent gets it as an attribute, that ``maker`` made ``module``."""
        made = MadeModule(module, maker)
        with self._lock:
            earlier = self._made.get(made.name)
            if earlier is not None:
                made.keep_what_was_displaced_first(earlier)
            self._made[made.name] = made

    def remove(self, is_unneeded: Callable[[MadeModule], bool]) -> None:
        """Remove those for which ``is_unneeded`` is true, children before their parents."""
        with self._lock:
            unneeded = [made for made in self._made.values() if is_unneeded(made)]
            for made in unneeded:
                del self._made[made.name]
        for made in reversed(unneeded):
            made.remove()

    def __contains__(self, module: object) -> bool:
        return any(made.module is module for made in list(self._made.values()))


def namespace_of(module: Any) -> dict[str, Any]:
    """The ``__dict__`` of a module without waking a lazy one."""
    try:
        namespace: dict[str, Any] = object.__getattribute__(module, "__dict__")
    except AttributeError:
        return {}
    return namespace


#: The modules made in this process.
made_modules = MadeModules()
