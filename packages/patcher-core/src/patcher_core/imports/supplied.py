"""Modules that upstream's installation lacks, made by a function when they are imported."""

from __future__ import annotations

import sys
import types
from importlib.machinery import ModuleSpec
from typing import Callable

from .finder import ModuleSource, finder
from .made_modules import made_modules

#: what a module may say about itself with two underscores; the rest makes it the module it is
_TAKEN_OVER = ("__all__", "__doc__", "__getattr__", "__version__")


class SuppliedModule(ModuleSource):
    """Provides the module ``name``, made by ``factory`` at its first import.

    Args:
        name: dotted name of the module.
        factory: called without arguments; its result's contents become those of the module.
        force: supply it even where the installation has a module of that name.
        stood_aside: called when the installation's own module turned out to be there.
    """

    def __init__(
        self,
        name: str,
        factory: Callable[[], types.ModuleType],
        *,
        force: bool,
        stood_aside: Callable[[], None],
    ) -> None:
        super().__init__(name)
        self.factory = factory
        self._force = force
        self._stood_aside = stood_aside

    def find_spec(self, fullname: str) -> ModuleSpec | None:
        if not self._force and self._exists(fullname):
            self._stood_aside()
            return None
        return ModuleSpec(
            fullname,
            _FactoryLoader(self),  # type: ignore[arg-type]
            origin="supplied by a patch",
            is_package=finder.has_sources_below(fullname),
        )

    def _exists(self, fullname: str) -> bool:
        parent = sys.modules.get(fullname.rpartition(".")[0])
        return finder.real_spec(fullname, getattr(parent, "__path__", None)) is not None


class _FactoryLoader:
    def __init__(self, source: SuppliedModule) -> None:
        self._source = source

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        made = self._source.factory()
        vars(module).update(
            (name, value)
            for name, value in vars(made).items()
            if not name.startswith("__") or name in _TAKEN_OVER
        )
        made_modules.record(module, self._source)
