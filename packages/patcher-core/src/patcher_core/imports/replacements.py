"""replace_import: stand-in modules, and ``replace_with`` to describe them."""

from __future__ import annotations

import importlib
import sys
import types
from importlib.machinery import ModuleSpec
from typing import Any, Mapping, Union

from .finder import ModuleSource, finder
from .made_modules import made_modules
from .names import checked_dotted_name, checked_identifier, is_within

#: What a stand-in may be made from: a module, or the dotted name of one that is imported when it is needed.
Base = Union[str, types.ModuleType]

# What makes a module the module it is: never taken over from the base, never overridden.
_IDENTITY = frozenset(
    (
        "__name__",
        "__spec__",
        "__package__",
        "__loader__",
        "__path__",
        "__file__",
        "__cached__",
        "__builtins__",
    )
)


class ModuleReplacement:
    """What a stand-in consists of: everything of ``base``, with ``exports`` on top."""

    def __init__(self, base: Base | None, exports: Mapping[str, Any]) -> None:
        self.base = base
        self.exports = dict(exports)

    @property
    def base_name(self) -> str | None:
        return self.base.__name__ if isinstance(self.base, types.ModuleType) else self.base


class replace_with:
    """Describes a replacement: ``replace_import("a", replace_with.module("b", Thing=int))``."""

    @staticmethod
    def module(base: Base | None = None, **exports: Any) -> ModuleReplacement:
        """A module with everything of ``base`` and ``exports`` on top. ``base`` is not imported yet.

        Raises:
            TypeError, ValueError: ``base`` is neither a module nor a dotted name, or an export no identifier.
        """
        return ModuleReplacement(_checked_base("base", base), _checked_exports(exports))


def replacement_from(
    old: str,
    replacement: Base | ModuleReplacement | None,
    base_module: Base | None,
    exports: Mapping[str, Any] | None,
    attrs: Mapping[str, Any],
) -> ModuleReplacement:
    """The arguments of replace_import, checked and put together.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: both ``replacement`` and ``base_module``; a name in both ``exports`` and ``attrs``; a
            malformed name; ``old`` as its own base.
    """
    if replacement is not None and base_module is not None:
        raise ValueError(f"replace_import({old!r}): give either replacement or base_module, not both")
    if exports is not None and not isinstance(exports, Mapping):
        raise TypeError(
            f"replace_import({old!r}): exports must be a dict of names to objects, got {exports!r}"
        )
    twice = sorted(set(exports or ()) & set(attrs))
    if twice:
        raise ValueError(
            f"replace_import({old!r}): {', '.join(twice)} given both in exports and as a keyword"
        )
    on_top = _checked_exports({**(exports or {}), **attrs})
    if isinstance(replacement, ModuleReplacement):
        described = ModuleReplacement(replacement.base, {**replacement.exports, **on_top})
    elif base_module is not None:
        described = ModuleReplacement(_checked_base("base_module", base_module), on_top)
    else:
        described = ModuleReplacement(_checked_base("replacement", replacement), on_top)
    if described.base_name is not None and is_within(described.base_name, old):
        raise ValueError(
            f"replace_import({old!r}): the base {described.base_name} is being replaced itself; "
            f"change single attributes with AtomicPatch"
        )
    return described


def _checked_base(argument: str, base: object) -> Base | None:
    if base is None or isinstance(base, types.ModuleType):
        return base
    if isinstance(base, str):
        return checked_dotted_name(argument, base)
    raise TypeError(
        f"{argument} must be a module, a dotted module name or replace_with.module(...), got {base!r}"
    )


def _checked_exports(exports: Mapping[str, Any]) -> Mapping[str, Any]:
    for name in exports:
        checked_identifier("an export", name)
        if name in _IDENTITY:
            raise ValueError(f"an export cannot be {name!r}: a stand-in module has its own")
    return exports


class StandInModules(ModuleSource):
    """Provides a stand-in for the module ``name``, and for its children where the base is a package."""

    def __init__(self, name: str, replacement: ModuleReplacement) -> None:
        super().__init__(name)
        self._replacement = replacement

    def provides(self, fullname: str) -> bool:
        return fullname == self.name or self._base_of_child(fullname) is not None

    def find_spec(self, fullname: str) -> ModuleSpec:
        child_base = self._base_of_child(fullname)
        replacement = self._replacement if child_base is None else ModuleReplacement(child_base, {})
        return ModuleSpec(fullname, _StandInLoader(self, replacement), origin="replaced by replace_import")  # type: ignore[arg-type]

    def _base_of_child(self, fullname: str) -> str | None:
        base = self._replacement.base_name
        if base is None or not fullname.startswith(self.name + "."):
            return None
        from importlib.util import find_spec

        candidate = base + fullname[len(self.name) :]
        try:
            return candidate if find_spec(candidate) is not None else None
        except (ImportError, ValueError):
            return None


class _StandInLoader:
    """Fills a stand-in when it is imported; nothing was imported for it before."""

    def __init__(self, source: StandInModules, replacement: ModuleReplacement) -> None:
        self._source = source
        self._replacement = replacement

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        base = self._imported_base(module.__name__)
        contents = {} if base is None else _exports_of(base, module.__name__)
        contents.update(self._replacement.exports)
        if "__all__" in contents:
            added = [name for name in self._replacement.exports if name not in contents["__all__"]]
            contents["__all__"] = [
                *contents["__all__"],
                *(name for name in added if not name.startswith("_")),
            ]
        vars(module).update(contents)
        if hasattr(base, "__path__") or finder.has_sources_below(module.__name__):
            _make_package(module)
        made_modules.record(module, self._source)
        for child in _hidden_children(base, contents):
            importlib.import_module(f"{module.__name__}.{child}")
            vars(module)[child] = contents[child]

    def _imported_base(self, name: str) -> types.ModuleType | None:
        base = self._replacement.base
        if not isinstance(base, str):
            return base
        try:
            return importlib.import_module(base)
        except ImportError as error:
            raise ImportError(
                f"{name} is replaced by {base} (replace_import), which cannot be imported: {error}", name=base
            ) from error


def _exports_of(base: types.ModuleType, stand_in: str) -> dict[str, Any]:
    """A copy of what ``base`` offers, less submodules for which something else is declared below ``stand_in``.

    What a lazy module has not loaded yet is asked of it later, by name.
    """
    contents = {
        name: value
        for name, value in vars(base).items()
        if name not in _IDENTITY
        and not (isinstance(value, types.ModuleType) and finder.is_declared(f"{stand_in}.{name}"))
    }
    if hasattr(type(base), "__getattr__"):

        def __getattr__(name: str) -> Any:
            if name in _IDENTITY:
                raise AttributeError(name)
            return getattr(base, name)

        contents.setdefault("__getattr__", __getattr__)
    return contents


def _hidden_children(base: types.ModuleType | None, contents: Mapping[str, Any]) -> list[str]:
    """Submodules of ``base`` under whose name it offers something else, such as a function.

    Imported later, such a submodule would take the place of the function.
    """
    if not hasattr(base, "__path__"):
        return []
    return [
        name
        for name, value in contents.items()
        if not isinstance(value, types.ModuleType) and f"{base.__name__}.{name}" in sys.modules  # type: ignore[union-attr]
    ]


def _make_package(module: types.ModuleType) -> None:
    spec = module.__spec__
    assert spec is not None
    spec.submodule_search_locations = []
    module.__path__ = []
    module.__package__ = module.__name__


def reason_too_late(name: str) -> str:
    """Why ``name`` cannot be replaced any more; empty if it can."""
    return (
        "already imported; call replace_import earlier, above the first import of it"
        if name in sys.modules
        else ""
    )
