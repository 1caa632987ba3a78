"""Where faults are planted: in what the groups of a patch set hand out, on its way to the engine."""

from __future__ import annotations

import functools
import sys
from types import ModuleType
from typing import Any, Callable, Iterator

from patcher_core import AtomicPatch, BasePatch, ModulePatch, RegistryPatch, SourceMatchPatch

from .wrong import around, is_changed_by, with_functions, wrong

#: ``change(name, value, original)``: what stands in for a replacement, given the name of the fault in it, and what it
#: wraps, if anything.
Change = Callable[[str, Any, Any], Any]


def plant(groups: list[Any], change: Change) -> None:
    """Have every group hand out patches whose replacements went through ``change``, for the rest of the process."""
    for group in groups:
        _Planting(group, change).install()


class Recording:
    """A ``change`` that changes nothing, and notes what is put in and what is called."""

    def __init__(self) -> None:
        #: every fault that could be planted so far
        self.put_in: set[str] = set()
        #: of these the values that are no functions, whose use is not seen
        self.values: set[str] = set()
        #: what was called and came to an end, since this was last emptied; of values, what was put in
        self.called: set[str] = set()
        #: of these what gave back, or wrote, something that the fault would have changed
        self.visible: set[str] = set()

    def __call__(self, name: str, value: Any, original: Any) -> Any:
        self.put_in.add(name)
        if isinstance(value, (staticmethod, classmethod)):
            return type(value)(self(name, value.__func__, None))
        if isinstance(value, ModuleType):
            return with_functions(value, lambda _, function: self(name, function, None))
        if isinstance(value, (type, property)) or not callable(value):
            self.values.add(name)
            self.called.add(name)
            return value
        return around(value, self._noting(name))

    def _noting(self, name: str) -> Callable[..., Any]:
        def call(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
            result, differs = is_changed_by(function, args, kwargs)
            self.called.add(name)
            if differs:
                self.visible.add(name)
            return result

        return call


def fault(name: str, does_nothing: bool) -> Change:
    """The ``change`` that makes one replacement wrong; ``does_nothing``: or not made at all, if it wraps something."""

    def change(other: str, value: Any, original: Any) -> Any:
        if other != name:
            return value
        return original if does_nothing and original is not None else wrong(value, does_nothing)

    return change


class _StandIns:
    """What ``change`` makes of values: one for each, as the engine compares patches by what they put in.

    Args:
        fault: names the fault in what a name stands for.
    """

    def __init__(self, change: Change, fault: Callable[[str], str]) -> None:
        self._change = change
        self._fault = fault
        self._made: dict[tuple[str, int], tuple[Any, Any]] = {}

    def changed(self, name: str, value: Any, original: Any = None) -> Any:
        return self.once(name, value, lambda: self._change(self._fault(name), value, original))

    def once(self, name: str, value: Any, make: Callable[[], Any]) -> Any:
        key = (name, id(value))
        if key not in self._made:
            made = make()
            if made is value:
                return value  # and asked again next time: a recording wants to see every use
            self._made[key] = (value, made)  # the value as well, so that its id stays its own
        return self._made[key][1]


class _Planting:
    """One group whose patches go through ``change``.

    What a composite hands out of other groups has one fault, "its members". ``composite`` names the group for which
    this one, a member, is planted.
    """

    def __init__(self, group: Any, change: Change, composite: str = "") -> None:
        self._group = group
        self._change = change
        self._own = _StandIns(change, lambda name: f"{group.name}: {name}")
        self._of_members = _StandIns(change, lambda _: f"{composite or group.name}: its members")

    def install(self) -> None:
        original: Any = self._group.patches.__func__

        def patches(cls: Any, options: Any = None) -> list[Any]:
            return [self._planted(patch) for patch in original(cls, options)]

        self._group.patches = classmethod(patches)

    def _planted(self, patch: Any) -> Any:
        if isinstance(patch, type):
            return self._of_members.once("", patch, lambda: self._planted_member(patch))
        if isinstance(patch, BasePatch):
            is_of_another_group = "_is_planted" in vars(patch)
            vars(patch)["_is_planted"] = True
            _plant(patch, self._of_members if is_of_another_group else self._own)
        return patch

    def _planted_member(self, member: Any) -> Any:
        """The same group, for this composite only."""
        planted = type(member.__name__, (member,), {"__module__": member.__module__, "name": member.name})
        _Planting(planted, self._change, self._group.name).install()
        return planted


def _plant(patch: Any, stand_ins: _StandIns) -> None:
    if isinstance(patch, SourceMatchPatch):
        first: dict[int, str] = {}
        for fingerprint, form in patch.forms.items():
            name = f"{patch.name} of {first.setdefault(id(form), fingerprint)}"
            patch.forms[fingerprint] = form._replace(**_wrapper(name, form, stand_ins))
    elif isinstance(patch, ModulePatch):
        patch.factory = _changed_factory(patch.name, patch.factory, stand_ins)
    elif isinstance(patch, AtomicPatch):
        _plant_in_attribute(patch, stand_ins)
    elif isinstance(patch, RegistryPatch):
        made = patch.module_factory
        patch.module_cls = patch.module_cls and stand_ins.changed(patch.name, patch.module_cls)
        patch.module_factory = made and (lambda: stand_ins.changed(patch.name, made()))
    else:
        for attribute, value in _callables(patch):
            setattr(patch, attribute, stand_ins.changed(patch.name, value))


def _plant_in_attribute(patch: AtomicPatch, stand_ins: _StandIns) -> None:
    if patch.given_replacement is None:
        name = f"{patch.target} by {_name_of(patch.target_wrapper)}"
        patch.target_wrapper = _wrapper(name, patch, stand_ins)["target_wrapper"]
        return
    name = f"{patch.target} by {_name_of(patch.given_replacement)}"
    kind: Any = type(patch)
    replacement = property(lambda planted: stand_ins.changed(name, kind.replacement.fget(planted)))
    patch.__class__ = type(kind.__name__, (kind,), {"replacement": replacement})


def _wrapper(name: str, form: Any, stand_ins: _StandIns) -> dict[str, Any]:
    """``target_wrapper`` or ``replacement_wrapper`` with a change on top."""
    is_wrapping = form.target_wrapper is not None
    wrapper = form.target_wrapper if is_wrapping else form.replacement_wrapper

    def wrap(value: Any) -> Any:
        made = wrapper(value) if wrapper is not None else value
        return stand_ins.changed(name, made, value if is_wrapping else None)

    if wrapper is not None:
        functools.update_wrapper(wrap, wrapper)
    return {
        "target_wrapper" if is_wrapping else "replacement_wrapper": stand_ins.once(
            name, wrapper, lambda: wrap
        )
    }


def _changed_factory(name: str, factory: Callable[[], Any], stand_ins: _StandIns) -> Callable[[], Any]:
    def change(function_name: str, value: Any) -> Any:
        return stand_ins.changed(_home(value) or f"{name}.{function_name}", value)

    return lambda: with_functions(factory(), change)


def _callables(patch: Any) -> Iterator[tuple[str, Any]]:
    """What another kind of patch puts in: its functions, but for those that ask something."""
    for attribute, value in vars(patch).items():
        if callable(value) and not isinstance(value, type) and attribute not in ("precheck", "runtime_check"):
            yield attribute, value


def _name_of(replacement: Any) -> str:
    """As it is written where it is defined."""
    if isinstance(replacement, str):
        return replacement.rpartition(".")[2]
    return str(getattr(replacement, "__qualname__", None) or repr(replacement))


def _home(function: Any) -> str:
    """Where a function is defined, so that it has one name in each module that exports it; "" for one made there."""
    module, name = getattr(function, "__module__", None), getattr(function, "__name__", "")
    return f"{module}.{name}" if getattr(sys.modules.get(module or ""), name, None) is function else ""
