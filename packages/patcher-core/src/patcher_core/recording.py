"""Patches that write by themselves: 1.0 function patches and registrations, undone by what could be seen of them.

What a foreign function writes is found by comparing namespaces before and after it ran: those of all loaded
modules, of the classes in the packages it deals with, and of the registries there (the dicts of whatever has a
``register_module``). Writes elsewhere (into instances, into closures) cannot be seen, and a function that wrote nothing
that could be seen is reported as such.
"""

from __future__ import annotations

import sys
from types import CodeType, ModuleType
from typing import Any, Callable, Collection, Iterable, Iterator

from .attributes import ABSENT, Attribute, TargetError, attribute_of, is_class, module_dict, own_namespace
from .installation import Installation, call_with_known_arguments
from .journal import Change, Layer, journal
from .patches import LegacyPatch, RegistryPatch
from .results import Line, PatchStatus, described_error
from .targets import TargetAbsent, locate


class Snapshot:
    """The namespaces that a foreign function may write to, as they are now.

    Elsewhere than in the packages ``near`` a number that takes the place of a number is not taken for a write of the
    function: threads and callbacks of the garbage collector count on meanwhile. None: everywhere is near.
    """

    def __init__(self, owners: Iterable[tuple[str, str, Any]], near: Collection[str] | None = None) -> None:
        self._before = [(path, module, owner, dict(own_namespace(owner))) for path, module, owner in owners]
        self._near = near

    def changes(self) -> Iterator[tuple[Attribute, Any]]:
        """Every attribute that holds another object than before, with the object that it held (or ABSENT)."""
        for path, module, owner, before in self._before:
            after = own_namespace(owner)
            if list(map(id, before.values())) == list(map(id, after.values())) and len(before) == len(after):
                continue
            for name in [*after, *(name for name in before if name not in after)]:
                old, new = before.get(name, ABSENT), after.get(name, ABSENT)
                if old is new or (isinstance(name, str) and _is_bookkeeping(name, owner, new)):
                    continue
                is_near = self._near is None or module.partition(".")[0] in self._near
                if is_near or not (type(old) in (int, float) and type(new) in (int, float)):
                    yield attribute_of(f"{path}.{name}", owner, name, module), old


def _is_bookkeeping(name: str, owner: Any, value: Any) -> bool:
    """What imports and the interpreter write on their own account: submodules, ``__warningregistry__``, caches."""
    if is_class(owner):
        return name in ("__doc__", "_abc_impl", "__abstractmethods__")
    namespace = module_dict(value) if type(value) is ModuleType else None
    is_submodule = namespace is not None and namespace.get("__name__", "").rpartition(".")[2] == name
    return is_submodule or (name.startswith("__") and name.endswith("__"))


def owners_near(module_names: Iterable[str]) -> Iterator[tuple[str, str, Any]]:
    """``(path, module name, owner)`` of all modules, and of classes and registries in the packages named."""
    roots = {name.partition(".")[0] for name in module_names}
    seen: set[int] = set()
    for module_name, module in list(sys.modules.items()):
        namespace = module_dict(module)
        if namespace is None or id(module) in seen:
            continue
        seen.add(id(module))
        yield module_name, module_name, module
        if module_name.partition(".")[0] not in roots:
            continue
        for name, value in list(namespace.items()):
            if id(value) in seen:
                continue
            if is_class(value) and value.__module__.partition(".")[0] in roots:
                seen.add(id(value))
                yield f"{value.__module__}.{value.__qualname__}", value.__module__, value
            elif not is_class(value) and callable(getattr(type(value), "register_module", None)):
                seen.add(id(value))
                yield from registry_dicts(f"{module_name}.{name}", module_name, value)


def registry_dicts(path: str, module_name: str, registry: Any) -> Iterator[tuple[str, str, Any]]:
    """The dicts in which a registry keeps what was registered."""
    for name, value in (module_dict(registry) or {}).items():
        if isinstance(value, dict):
            yield f"{path}.{name}", module_name, value


class _RecordedInstallation(Installation):
    """Runs foreign code once and adopts the writes that it did."""

    def _adopt(self, snapshot: Snapshot) -> list[Layer]:
        return [journal.adopt(attribute, before, self) for attribute, before in snapshot.changes()]

    def _run(self, snapshot: Snapshot, action: Callable[[], Any]) -> tuple[list[Layer], str]:
        """Run ``action``; gives back its writes, and the error text if it raised, its writes undone then."""
        try:
            action()
        except Exception as error:
            for layer in reversed(self._adopt(snapshot)):
                journal.remove(layer, [])
            return [], described_error(error)
        return self._adopt(snapshot), ""

    @property
    def _is_in(self) -> bool:
        layers = self.layers
        return bool(layers) and all(layer.is_in_force for layer in layers)


class RegistryInstallation(_RecordedInstallation):
    """A :class:`RegistryPatch`: ``register_module`` is called, the entry it makes is recorded."""

    patch: RegistryPatch

    def install(self, changes: list[Change], *, imports: bool, executed: Collection[str] = ()) -> None:
        if self._is_in:
            return
        patch, name = self.patch, self.patch.name
        try:
            attribute = locate(patch.registry, imports=imports, executed=executed)
            registry = attribute.read()
            if not callable(getattr(registry, "register_module", None)):
                raise TargetAbsent(f"{patch.registry} has no register_module")
            if patch.precheck is not None and not call_with_known_arguments(
                patch.precheck, {"target": name, "registry": patch.registry, "patch": patch}
            ):
                self.lines = {name: Line(name, PatchStatus.SKIPPED, "precheck failed")}
                return
            cls = patch.module_cls if patch.module_cls is not None else patch.module_factory()
            if not is_class(cls):
                raise TargetError(f"module_factory of {name} must give back a class, got {cls!r}")
        except TargetError as error:
            self.lines = {name: Line(name, error.status, str(error))}
            return
        except Exception as error:
            self.lines = {name: Line(name, PatchStatus.FAILED, described_error(error))}
            return
        snapshot = Snapshot(registry_dicts(patch.registry, attribute.module_name, registry))
        layers, problem = self._run(
            snapshot,
            lambda: registry.register_module(name=patch.register_name, force=patch.force, module=cls),
        )
        if problem:
            self.lines = {name: Line(name, PatchStatus.FAILED, problem)}
            return
        for layer in layers:
            self.lines[layer.attribute.path] = layer
            layer.path = name
        if not layers:
            reason = "registered, but no change of the registry could be seen: it cannot be undone"
            self.lines = {name: Line(name, PatchStatus.APPLIED, reason, doubt=reason)}


class LegacyInstallation(_RecordedInstallation):
    """A :class:`LegacyPatch`: the function is called with the module, the writes that it did are recorded."""

    patch: LegacyPatch

    def install(self, changes: list[Change], *, imports: bool, executed: Collection[str] = ()) -> None:
        patch, name = self.patch, self.patch.name
        if patch.is_applied and self._is_here:
            return
        other = _functions_in_force.get(self._key)
        if other is not None and other is not self and other._is_here:
            self.lines = {name: Line(name, PatchStatus.SKIPPED, f"already applied by {other.holder}")}
            return
        try:
            module = locate(f"{patch.target_module}.__name__", imports=imports, executed=executed).owner
        except TargetError as error:
            self.lines = {name: Line(name, error.status, str(error).replace(".__name__", ""))}
            return
        modules_before = set(sys.modules)
        layers, problem = self._run(self._snapshot(), lambda: patch.func(module, patch.options))
        if problem:
            # In 1.0 an AttributeError meant "nothing to patch here"; it may as well be a bug, so it is said aloud.
            skipped = problem.startswith("AttributeError")
            status = PatchStatus.SKIPPED if skipped or not patch.failure_warning else PatchStatus.FAILED
            doubt = problem if skipped and patch.failure_warning else ""
            self.lines = {name: Line(name, status, problem, doubt=doubt)}
            return
        patch.is_applied = True
        _functions_in_force[self._key] = self
        self.lines = {layer.path: layer for layer in layers}
        changes += layers
        unseen = _text_on_unseen(set(sys.modules) - modules_before)
        if not layers:
            self.lines[name] = Line(
                name, PatchStatus.SKIPPED, f"ran, wrote nothing that could be seen{unseen}"
            )
        elif unseen:
            self.lines[name] = Line(name, PatchStatus.APPLIED, unseen[2:], doubt=unseen[2:])

    @property
    def _key(self) -> tuple[int, str]:
        return (id(self.patch.func), self.patch.target_module)

    @property
    def _is_here(self) -> bool:
        """True after the function ran, unless what it wrote is gone since."""
        return bool(self.lines) and (self._is_in or not self.layers)

    def _snapshot(self) -> Snapshot:
        function = self.patch.func
        in_globals = getattr(function, "__globals__", {}).values()
        modules = {value.__name__ for value in in_globals if type(value) is ModuleType}
        modules.add(self.patch.target_module)
        named = modules | set(_names_in(getattr(function, "__code__", None)))
        return Snapshot(owners_near(modules), near={name.partition(".")[0] for name in named})

    def remove(self, changes: list[Change]) -> list[str]:
        if _functions_in_force.get(self._key) is self:
            del _functions_in_force[self._key]
            self.patch.is_applied = False
        return super().remove(changes)


def _names_in(code: CodeType | None) -> Iterator[str]:
    """Every name in a function's code and in the functions within it: the modules that it imports are among them."""
    if code is None:
        return
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


#: Which installation ran which function on which module.
_functions_in_force: dict[tuple[int, str], LegacyInstallation] = {}


def _text_on_unseen(imported: set[str]) -> str:
    """What is to be said of modules that a function imported itself; "" if it imported none."""
    if not imported:
        return ""
    roots = sorted({name.partition(".")[0] for name in imported})
    return f"; it imported {', '.join(roots[:3])}, and writes into what it imported are not recorded"
