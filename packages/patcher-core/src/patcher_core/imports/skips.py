"""skip_import for one name: the source of its stubs."""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING

from .finder import ModuleSource
from .made_modules import made_modules
from .names import is_within
from .stubs import SkippedName, StubLoader, StubModule, StubType, is_stub, stub_attribute, stub_spec

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

ON_CALL = ("none", "raise")


class SkippedModules(ModuleSource):
    """A skipped module and everything below it, shown to every importer."""

    hidden = True

    def __init__(self, name: str, on_call: str) -> None:
        super().__init__(name)
        self.skipped = SkippedName(name, on_call)
        self._loader = _RecordingStubLoader(self)
        self._filled: tuple[types.ModuleType, StubType] | None = None

    def provides(self, fullname: str) -> bool:
        return is_within(fullname, self.name)

    def find_spec(self, fullname: str) -> ModuleSpec:
        return stub_spec(fullname, self._loader)

    def attribute(self) -> StubType:
        parent, _, child = self.name.rpartition(".")
        return stub_attribute(parent, child, self.skipped)

    def fill_parent(self, parent: types.ModuleType) -> None:
        """Give a real parent that is no package the name it lacks: no finder is asked for children of it."""
        child = self.name.rpartition(".")[2]
        if not hasattr(parent, "__path__") and not _has(parent, child):
            stub = self.attribute()
            setattr(parent, child, stub)
            self._filled = parent, stub

    def empty_parent(self) -> None:
        """Undo :meth:`fill_parent`."""
        if self._filled is not None:
            parent, stub = self._filled
            self._filled = None
            child = self.name.rpartition(".")[2]
            if vars(parent).get(child) is stub:
                delattr(parent, child)


class _RecordingStubLoader(StubLoader):
    def __init__(self, source: SkippedModules) -> None:
        super().__init__(source.skipped)
        self._source = source

    def exec_module(self, module: types.ModuleType) -> None:
        made_modules.record(module, self._source)


def reason_too_late(name: str) -> str:
    """Why skipping ``name`` for every importer cannot work any more; empty if it can."""
    if name in sys.modules:
        module = sys.modules[name]
        if isinstance(module, StubModule):
            return ""
        if module is None:
            return f"sys.modules[{name!r}] is None, so its import fails before any finder is asked"
        return "already imported; call skip_import earlier, above the first import of it"
    return ""


def reason_not_a_module(name: str) -> str:
    """Why a dotted ``name`` cannot be skipped: it is an ordinary attribute of its real, imported parent."""
    parent_name, _, child = name.rpartition(".")
    parent = sys.modules.get(parent_name)
    if not isinstance(parent, types.ModuleType) or name in sys.modules or parent in made_modules:
        return ""
    value = vars(parent).get(child)
    if value is None or isinstance(value, types.ModuleType) or is_stub(value):
        return ""
    return (
        f"it is an attribute of the real module {parent_name}, not a module; replace it with an AtomicPatch"
    )


def _has(module: types.ModuleType, name: str) -> bool:
    try:
        return hasattr(module, name)
    except Exception:  # a module with a __getattr__ that imports what cannot be imported here
        return False
