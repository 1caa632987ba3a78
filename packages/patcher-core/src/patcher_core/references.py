"""Copies of a replaced object that others took earlier, and how they are made to see the replacement.

``from library import f`` leaves a second reference to the function. Such copies are found by identity in the
``__dict__`` of loaded modules and rebound. One sweep serves all replacements of an ``apply()``: per module one
pass in C over the identities of its values. Lazy modules are not woken.
"""

from __future__ import annotations

import sys
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Iterable, Iterator, NamedTuple

from .journal import Transition
from .targets import Attribute, module_dict

_kept: set[str] = set()

_REBINDABLE = (FunctionType, BuiltinFunctionType, type)


def keep(*names: str) -> None:
    """Never rebind these: module names (``my_migration.ops``) or single names in one (``my_migration.ops.old_f``).

    For whoever holds the original on purpose, as a fallback or to compare with.
    """
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"keep() takes dotted names, got {name!r}")
        if not name or not all(name.split(".")):
            raise ValueError(f"keep() takes dotted names, got {name!r}")
    _kept.update(names)


class Copy(NamedTuple):
    """A reference that a module holds under a name."""

    module: str
    name: str
    namespace: dict[str, Any]
    transition: Transition

    @property
    def path(self) -> str:
        return f"{self.module}.{self.name}"


def is_defined_at(attribute: Attribute, value: Any) -> bool:
    """True where ``attribute`` is the home of ``value``: its copies elsewhere are copies of this target."""
    owner = attribute.owner
    namespace = module_dict(owner) or {}
    if getattr(value, "__module__", None) != namespace.get("__name__"):
        return False
    name = getattr(value, "__name__", attribute.name)
    return name == attribute.name or namespace.get(name) is not value


def has_home(value: Any) -> bool:
    """True where ``value`` can be imported from where its ``__module__`` and ``__qualname__`` say."""
    found: Any = sys.modules.get(getattr(value, "__module__", None) or "")
    for part in (getattr(value, "__qualname__", None) or "?").split("."):
        found = found.__dict__.get(part) if isinstance(found, type) else (module_dict(found) or {}).get(part)
    return found is value


def follow(
    transitions: Iterable[Transition], modules: Iterable[tuple[str, Any]], patch_set_roots: Iterable[str] = ()
) -> tuple[list[Copy], list[Copy]]:
    """Make copies follow the changes of their originals.

    Args:
        modules: ``(name, module)`` of those to look through.
        patch_set_roots: top-level packages whose references are never touched.

    Returns:
        the copies that were rebound, and those found but kept on purpose.
    """
    wanted: dict[int, tuple[Transition, str]] = {}
    done: list[Copy] = []
    for transition in transitions:
        for (module_name, name), namespace in transition.slot.copies.items():
            done += _rebound(Copy(module_name, name, namespace, transition))
        scope = _scope(transition)
        if scope is not None:
            wanted[id(transition.old)] = (transition, scope)
    kept: list[Copy] = []
    if wanted:
        roots = {*patch_set_roots, "patcher_core"}
        for copy in _copies_in(modules, wanted):
            if _is_kept(copy, roots):
                kept.append(copy)
            else:
                done += _rebound(copy)
    return done, kept


def _copies_in(
    modules: Iterable[tuple[str, Any]], wanted: dict[int, tuple[Transition, str]]
) -> Iterator[Copy]:
    identities = frozenset(wanted)
    seen: set[int] = set()
    for module_name, module in modules:
        namespace = module_dict(module)
        if (
            namespace is None
            or id(namespace) in seen
            or identities.isdisjoint(map(id, list(namespace.values())))
        ):
            continue
        seen.add(id(namespace))
        for name, value in list(namespace.items()):
            transition, only_name = wanted.get(id(value), (None, ""))
            if transition is not None and not name.startswith("__") and only_name in ("", name):
                yield Copy(module_name, name, namespace, transition)


def _scope(transition: Transition) -> str | None:
    """Which copies of the old value are copies of this target: "" all, a name those of that name, None none."""
    old, attribute = transition.old, transition.slot.attribute
    if not isinstance(old, _REBINDABLE) or not isinstance(attribute.owner, ModuleType):
        return None
    if is_defined_at(attribute, old) or (transition.was_ours and not has_home(old)):
        return ""
    if transition.was_ours and getattr(old, "__name__", attribute.name) != attribute.name:
        return attribute.name
    return None


def _rebound(copy: Copy) -> list[Copy]:
    """Make one copy hold the new value, unless somebody changed it meanwhile."""
    transition = copy.transition
    slot = transition.slot
    if copy.namespace is slot.attribute.owner.__dict__ and copy.name == slot.attribute.name:
        return []
    if copy.namespace.get(copy.name) is not transition.old:
        return []
    copy.namespace[copy.name] = transition.new
    slot.copies[copy.module, copy.name] = copy.namespace
    return [copy]


def _is_kept(copy: Copy, roots: set[str]) -> bool:
    module = copy.module
    return (
        module in getattr(copy.transition.layer.patch, "defining_modules", ())
        or module in _kept
        or copy.path in _kept
        or module.partition(".")[0] in roots
        or _is_test_module(module)
    )


def _is_test_module(name: str) -> bool:
    """Tests hold originals to compare with: pytest's file patterns, ``conftest``, a ``tests`` package."""
    *packages, last = name.split(".")
    return last == "conftest" or last.startswith("test_") or last.endswith("_test") or "tests" in packages
