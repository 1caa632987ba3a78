"""inject_import: one more name in a module that its authors forgot to export."""

from __future__ import annotations

import importlib
import types
from typing import Any

from .stubs import is_stub

_MISSING = object()


class Injection:
    """``source.name`` written to ``target.name`` and to ``target.__all__``; undone by :meth:`undo`."""

    def __init__(self, source: str, name: str, target: str) -> None:
        self.source = source
        self.name = name
        self.target = target
        self._written: tuple[types.ModuleType, Any] | None = None
        self._exported: tuple[Any, Any, list[str]] | None = None

    def run(self) -> str:
        """Import both modules and write the name; never over one that is there.

        Returns:
            Why it failed, with the cause; empty if the target has the object now.
        """
        try:
            value = self._imported_value()
            target = importlib.import_module(self.target)
            present = getattr(target, self.name, _MISSING)
        except (Exception, SystemExit) as error:  # some libraries exit where they find no device
            return _told(error)
        for path, found in ((f"{self.source}.{self.name}", value), (self.target, target)):
            if is_stub(found):
                return f"{path} is skipped by skip_import"
        if present is value:
            return ""
        if present is not _MISSING:
            return f"{self.target} already has a {self.name} of its own ({present!r}); left as it is"
        try:
            setattr(target, self.name, value)
            self._written = (target, value)
            self._add_to_all(target)
        except Exception as error:  # a module of a class of its own may refuse
            self.undo()
            return f"{self.target} refuses {self.name}: {_told(error)}"
        return ""

    def undo(self) -> None:
        """Take the name away again, unless somebody else wrote it since."""
        if self._written is None:
            return
        target, value = self._written
        self._written = None
        if vars(target).get(self.name, _MISSING) is value:
            delattr(target, self.name)
            self._take_from_all(target)

    def _add_to_all(self, target: types.ModuleType) -> None:
        old = vars(target).get("__all__")
        if not isinstance(old, (list, tuple, set, frozenset)) or self.name in old:
            self._exported = None
            return
        # A new collection: the old one may be shared with the module it was copied from.
        new: Any = type(old)((*old, self.name))
        target.__all__ = new  # type: ignore[attr-defined]
        self._exported = (old, new, list(new))

    def _take_from_all(self, target: types.ModuleType) -> None:
        current = vars(target).get("__all__")
        if self._exported is None or current is None:
            return
        old, new, as_written = self._exported
        if current is new and list(new) == as_written:
            target.__all__ = old  # type: ignore[attr-defined]
        elif self.name in current:
            target.__all__ = type(current)(name for name in current if name != self.name)  # type: ignore[attr-defined]

    def _imported_value(self) -> Any:
        module = importlib.import_module(self.source)
        try:
            return getattr(module, self.name)
        except AttributeError:
            # A submodule, which `from source import name` would import as well.
            try:
                return importlib.import_module(f"{self.source}.{self.name}")
            except ModuleNotFoundError:
                raise ImportError(f"module {self.source} has no {self.name}") from None


def _told(error: BaseException) -> str:
    """The error and its causes in one line."""
    parts = []
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        parts.append(f"{type(current).__name__}: {current}")
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return ", caused by ".join(parts)
