"""Loaders that tell when a module's code has run, and leave no trace of themselves in the module."""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec


def notify_after_exec(spec: ModuleSpec, notify: Callable[[str], None]) -> None:
    """Change ``spec`` so that ``notify(spec.name)`` is called right after the module's code has run.

    The loader that does it takes itself out before that code runs: the module sees its real loader.
    """
    loader: Any = spec.loader
    if isinstance(loader, _StandInLoader):
        return  # the finder that made the spec hands the same one out again
    if loader is not None and not hasattr(loader, "exec_module"):
        spec.loader = _NotifyingLegacyLoader(spec, loader, notify)  # type: ignore[assignment]
    elif _is_lazy_loader(loader):
        # The code runs at the first attribute access, with the loader inside.
        if not isinstance(loader.loader, _StandInLoader):
            loader.loader = _NotifyingLoader(spec, loader.loader, notify)
    else:
        spec.loader = _NotifyingLoader(spec, loader, notify)  # type: ignore[assignment]


class _StandInLoader:
    """Answers like the loader of one spec, in whose place it stands."""

    def __init__(self, spec: ModuleSpec, real: Any, notify: Callable[[str], None]) -> None:
        self._spec = spec
        self._real = real
        self._notify = notify

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """``isinstance`` answers for the real loader, for those who look at a spec they did not load."""
        return type(self._real)


class _NotifyingLoader(_StandInLoader):
    """For loaders with ``exec_module``, and for namespace packages, which have none."""

    def create_module(self, spec: ModuleSpec) -> types.ModuleType | None:
        standing = spec.loader
        spec.loader = self._real
        try:
            if hasattr(self._real, "create_module"):
                return self._real.create_module(spec)  # type: ignore[no-any-return]
            module = _module_from_spec(spec)
            self._real = spec.loader  # a namespace package has none until its module is made
        finally:
            spec.loader = standing
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        if self._real is None:  # a namespace package is reloaded: its module was not made here
            self._spec.loader = None
            self._real = _module_from_spec(self._spec).__loader__
        self._spec.loader = self._real
        if getattr(module, "__loader__", None) is self:
            module.__loader__ = self._real
        self._real.exec_module(module)
        self._notify(self._spec.name)


class _NotifyingLegacyLoader(_StandInLoader):
    """For loaders that only have ``load_module``, such as zipimport before CPython 3.10."""

    def load_module(self, fullname: str) -> types.ModuleType:
        self._spec.loader = self._real
        self._real.load_module(fullname)
        self._notify(fullname)
        return sys.modules[fullname]


def _module_from_spec(spec: ModuleSpec) -> types.ModuleType:
    from importlib.util import module_from_spec

    return module_from_spec(spec)


def _is_lazy_loader(loader: object) -> bool:
    util = sys.modules.get("importlib.util")
    return util is not None and isinstance(loader, util.LazyLoader)
