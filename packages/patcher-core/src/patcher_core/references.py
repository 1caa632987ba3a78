"""Copies of a replaced object that others took earlier, and how they are made to see the replacement.

``from library import f`` leaves a second reference to the function. Such copies are found by identity in the
``__dict__`` of loaded modules and rebound. One sweep serves all replacements of an ``apply()``: per module one
pass in C over the identities of its values. Lazy modules are not woken.
"""

from __future__ import annotations

import sys
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Iterable, Iterator, NamedTuple, Sequence

from .attributes import Attribute, is_class, module_dict
from .journal import Transition, journal

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

    module_name: str
    name: str
    module: Any
    namespace: dict[str, Any]
    transition: Transition

    @property
    def path(self) -> str:
        return f"{self.module_name}.{self.name}"


def is_defined_at(attribute: Attribute, value: Any) -> bool:
    """True where ``attribute`` is the home of ``value``: its copies elsewhere are copies of this target."""
    namespace = module_dict(attribute.owner) or {}
    if getattr(value, "__module__", None) != namespace.get("__name__"):
        return False
    name = getattr(value, "__name__", attribute.name)
    return name == attribute.name or namespace.get(name) is not value


def has_home(value: Any) -> bool:
    """True where ``value`` can be imported from where its ``__module__`` and ``__qualname__`` say."""
    found: Any = sys.modules.get(getattr(value, "__module__", None) or "")
    for part in (getattr(value, "__qualname__", None) or "?").split("."):
        found = found.__dict__.get(part) if is_class(found) else (module_dict(found) or {}).get(part)
    return found is value


def follow(
    transitions: Sequence[Transition], modules: Iterable[tuple[str, Any]], patch_set_roots: Iterable[str] = ()
) -> tuple[list[Copy], list[Copy]]:
    """Make copies follow the changes of their originals.

    Args:
        transitions: in the order in which they happened.
        modules: ``(name, module)`` of those to look through.
        patch_set_roots: top-level packages whose references are never touched.

    Returns:
        the copies that were rebound, and those found but kept on purpose.
    """
    last = {transition.slot.attribute.key: transition.new for transition in transitions}
    roots = {*patch_set_roots, "patcher_core"}
    search = _Search()
    done: list[Copy] = []
    kept: list[Copy] = []
    for transition in transitions:
        slot = transition.slot
        final = last[slot.attribute.key]
        if transition.new is not final:
            transition = Transition(slot, transition.layer, transition.old, final, transition.was_ours)
        if slot.copies:
            for (module_name, name), (module, namespace) in list(slot.copies.items()):
                done += _rebound(Copy(module_name, name, module, namespace, transition))
        search.add(transition)
    for copy in search.copies_in(modules):
        if _is_kept(copy, roots):
            kept.append(copy)
        else:
            done += _rebound(copy)
    return done, kept


class _Search:
    """For which objects to look, and under which names a copy of each counts."""

    def __init__(self) -> None:
        self._by_identity: dict[int, list[tuple[Transition, str]]] = {}
        self._in_use: set[int] | None = None

    def add(self, transition: Transition) -> None:
        scope = self._scope(transition)
        if scope is not None:
            self._by_identity.setdefault(id(transition.old), []).append((transition, scope))

    def copies_in(self, modules: Iterable[tuple[str, Any]]) -> Iterator[Copy]:
        """The copies in these modules, those that lie under a patch of their own included."""
        identities = frozenset(self._by_identity)
        if not identities:
            return
        names_below = self._names_of_patched_copies()
        seen: set[int] = set()
        for module_name, module in modules:
            namespace = module_dict(module)
            if namespace is None or id(namespace) in seen:
                continue
            seen.add(id(namespace))
            names = names_below.get(id(module), [])
            if not identities.isdisjoint(map(id, list(namespace.values()))):
                names = [
                    *names,
                    *(name for name, value in list(namespace.items()) if id(value) in identities),
                ]
            for name in names:
                transition = self._followed(name, journal.below(module, name, namespace.get(name)))
                if transition is not None:
                    yield Copy(module_name, name, module, namespace, transition)

    def _names_of_patched_copies(self) -> dict[int, list[str]]:
        """By owner, the attributes whose original is one of the objects looked for, less the targets themselves."""
        names: dict[int, list[str]] = {}
        for slot in journal.slots:
            found = self._by_identity.get(id(slot.base), ())
            if found and not (len(found) == 1 and found[0][0].slot is slot):
                names.setdefault(id(slot.attribute.owner), []).append(slot.attribute.name)
        return names

    def _followed(self, name: str, value: Any) -> Transition | None:
        """The transition that a copy ``value`` of this name follows; None if there is none, or no telling which."""
        found = self._by_identity.get(id(value))
        if found is None or name.startswith("__"):
            return None
        if len({id(transition.slot) for transition, _ in found}) > 1:
            found = [one for one in found if one[0].slot.attribute.name == name]
        fitting = [transition for transition, only_name in found if only_name in ("", name)]
        return fitting[0] if len({id(transition.new) for transition in fitting}) == 1 else None

    def _scope(self, transition: Transition) -> str | None:
        """Which copies of the old value are copies of this target: "" all, a name those of that name, None none."""
        old, attribute = transition.old, transition.slot.attribute
        if not isinstance(old, _REBINDABLE) or not isinstance(attribute.owner, ModuleType):
            return None
        if is_defined_at(attribute, old):
            return ""
        if not transition.was_ours:
            return None
        if not has_home(old):
            return attribute.name if self._is_in_use(old) else ""
        return None if getattr(old, "__name__", attribute.name) == attribute.name else attribute.name

    def _is_in_use(self, value: Any) -> bool:
        """True if some patch still holds ``value`` somewhere."""
        if self._in_use is None:
            self._in_use = journal.values_in_use()
        return id(value) in self._in_use


def _rebound(copy: Copy) -> list[Copy]:
    """Make one copy hold the new value, unless somebody changed it meanwhile or it is the target itself."""
    old, new, slot = copy.transition.old, copy.transition.new, copy.transition.slot
    if copy.module is slot.attribute.owner and copy.name == slot.attribute.name:
        return []
    if journal.below(copy.module, copy.name, copy.namespace.get(copy.name)) is not old:
        return []
    if not journal.rebase(copy.module, copy.name, new):
        copy.namespace[copy.name] = new
    slot.copies[copy.module_name, copy.name] = (copy.module, copy.namespace)
    return [copy]


def _is_kept(copy: Copy, roots: set[str]) -> bool:
    module = copy.module_name
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
