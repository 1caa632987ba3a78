"""Copies of a replaced object that others took earlier, and how they are made to see the replacement.

``from library import f`` leaves a second reference to the function. Such copies are found by identity in the
``__dict__`` of loaded modules and rebound. One sweep serves all replacements of an ``apply()``: per module one
pass in C over the identities of its values. Lazy modules are not woken.
"""

from __future__ import annotations

import sys
from functools import cached_property
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Iterable, Iterator, Sequence

from .attributes import Attribute, is_class, module_dict
from .journal import Change, Transition, journal

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


class Copy:
    """A reference that a module holds under a name, and what it follows."""

    __slots__ = ("module", "module_name", "name", "namespace", "transition")

    def __init__(
        self, module_name: str, name: str, module: Any, namespace: dict[str, Any], transition: Transition
    ) -> None:
        self.module_name = module_name
        self.name = name
        self.module = module
        self.namespace = namespace
        self.transition = transition

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
    changes: Sequence[Change], modules: Iterable[tuple[str, Any]], patch_set_roots: Iterable[str] = ()
) -> tuple[list[Copy], list[Copy]]:
    """Make copies follow the changes of their originals.

    Args:
        changes: in the order in which they happened.
        modules: ``(name, module)`` of those to look through.
        patch_set_roots: top-level packages whose references are never touched.

    Returns:
        the copies that were rebound, and those found but kept on purpose.
    """
    roots = {*patch_set_roots, "patcher_core"}
    search = _Search(changes)
    kept: list[Copy] = []
    # All of them are found before any is rebound.
    followed = list(search.copies_known())
    found = list(search.copies_in(modules))
    for copy in found:
        (kept if _is_kept(copy, roots) else followed).append(copy)
    return [copy for copy in followed if _rebind(copy)], kept


class _Search:
    """Copies of the old values of some attributes, and which change each of them follows.

    Most originals have no copy: all that is done for every change is to note the identity of the old value.
    """

    def __init__(self, changes: Sequence[Change]) -> None:
        self._changes = changes
        self._targets = {
            id(change.old): change.attribute for change in changes if isinstance(change.old, _REBINDABLE)
        }

    def copies_known(self) -> Iterator[Copy]:
        """The copies that were found when something was written before."""
        for change in self._changes:
            copies = change.attribute.copies
            if copies:
                for (module_name, name), (module, namespace) in list(copies.items()):
                    yield Copy(module_name, name, module, namespace, self._to_final_value(change))

    def copies_in(self, modules: Iterable[tuple[str, Any]]) -> Iterator[Copy]:
        """The copies in these modules, those that lie under a patch of their own included."""
        identities = self._targets.keys()
        if not identities:
            return
        names_below = self._names_of_patched_copies()
        seen: set[int] = set()
        for module_name, module in modules:
            namespace = module_dict(module)
            if namespace is None or id(namespace) in seen:
                continue
            seen.add(id(namespace))
            names: Iterable[str] = names_below.get(id(module), ())
            if not identities.isdisjoint(map(id, list(namespace.values()))):
                names = [
                    *names,
                    *(name for name, value in list(namespace.items()) if id(value) in identities),
                ]
            for name in names:
                transition = self._followed(name, journal.below(module, name, namespace.get(name)))
                if transition is not None and not _is_target(transition, module, name):
                    yield Copy(module_name, name, module, namespace, transition)

    def _names_of_patched_copies(self) -> dict[int, dict[str, None]]:
        """By owner, the attributes whose original is that of another target."""
        names: dict[int, dict[str, None]] = {}
        for attribute in journal.attributes:
            target = self._targets.get(id(attribute.base), attribute)
            if target is not attribute:  # then the target may as well be a copy of this attribute
                for same in (attribute, target):
                    names.setdefault(id(same.owner), {})[same.name] = None
        return names

    def _followed(self, name: str, value: Any) -> Transition | None:
        """The transition that a copy ``value`` of this name follows; None if there is none, or no telling which."""
        found = self._with_scopes.get(id(value))
        if not found or name.startswith("__"):
            return None
        if len({id(transition.attribute) for transition, _ in found}) > 1:
            found = [(transition, scope) for transition, scope in found if transition.attribute.name == name]
        fitting = [transition for transition, scope in found if scope in ("", name)]
        return fitting[0] if len({id(transition.new) for transition in fitting}) == 1 else None

    @cached_property
    def _with_scopes(self) -> dict[int, list[tuple[Transition, str]]]:
        """By the identity of the old value, the transitions of which there may be copies, and their scope."""
        found: dict[int, list[tuple[Transition, str]]] = {}
        for change in self._changes:
            scope = self._scope(change)
            if scope is not None:
                found.setdefault(id(change.old), []).append((self._to_final_value(change), scope))
        return found

    @cached_property
    def _final_values(self) -> dict[Attribute, Any]:
        return {change.attribute: change.new for change in self._changes}

    def _to_final_value(self, change: Change) -> Transition:
        """From the old value to the one that the attribute has after all changes."""
        final = self._final_values[change.attribute]
        return Transition(change.attribute, change.cause, change.old, final, change.was_ours)

    def _scope(self, change: Change) -> str | None:
        """Which copies of the old value are copies of this target: "" all, a name those of that name, None none."""
        old, attribute = change.old, change.attribute
        if not isinstance(old, _REBINDABLE) or not isinstance(attribute.owner, ModuleType):
            return None
        if is_defined_at(attribute, old):
            return ""
        if not change.was_ours:
            return None
        if not has_home(old):
            return attribute.name if id(old) in self._values_in_use else ""
        return None if getattr(old, "__name__", attribute.name) == attribute.name else attribute.name

    @cached_property
    def _values_in_use(self) -> set[int]:
        return journal.values_in_use()


def _rebind(copy: Copy) -> bool:
    """Make one copy hold the new value; False where somebody changed it meanwhile."""
    old, new, attribute = copy.transition.old, copy.transition.new, copy.transition.attribute
    if journal.below(copy.module, copy.name, copy.namespace.get(copy.name)) is not old:
        return False
    if not journal.rebase(copy.module, copy.name, new):
        copy.namespace[copy.name] = new
    if attribute.copies is None:
        attribute.copies = {}
    attribute.copies[copy.module_name, copy.name] = (copy.module, copy.namespace)
    return True


def _is_target(transition: Transition, module: Any, name: str) -> bool:
    attribute = transition.attribute
    return module is attribute.owner and name == attribute.name


def _is_kept(copy: Copy, roots: set[str]) -> bool:
    module = copy.module_name
    return (
        module in getattr(copy.transition.cause.patch, "defining_modules", ())
        or module in _kept
        or copy.path in _kept
        or module.partition(".")[0] in roots
        or _is_test_module(module)
    )


def _is_test_module(name: str) -> bool:
    """Tests hold originals to compare with: pytest's file patterns, ``conftest``, a ``tests`` package."""
    *packages, last = name.split(".")
    return last == "conftest" or last.startswith("test_") or last.endswith("_test") or "tests" in packages
