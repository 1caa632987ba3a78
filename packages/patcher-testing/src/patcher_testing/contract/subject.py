"""What a contract is about, and how its targets are read without the engine's help."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import json
import sys
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple


@dataclass(frozen=True)
class Target:
    """One target or alias that was applied when everything was there."""

    name: str
    group: str


@dataclass(frozen=True)
class Subject:
    """A patch set under test, as data that reaches a fresh process."""

    #: `module:attribute` of a list of groups
    groups: str
    libraries: tuple[str, ...]
    modules: tuple[str, ...] = ()
    imported_first: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    on_npu: bool = False
    targets: tuple[Target, ...] = ()

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Subject:
        data = json.loads(text)
        for name in ("libraries", "modules", "imported_first", "kept"):
            data[name] = tuple(data[name])
        data["targets"] = tuple(Target(**target) for target in data["targets"])
        return cls(**data)

    def load_groups(self) -> list[Any]:
        module, _, attribute = self.groups.partition(":")
        return list(getattr(importlib.import_module(module), attribute))

    @property
    def group_names(self) -> list[str]:
        return sorted({target.group for target in self.targets})

    def new_patcher(self) -> Any:
        """A patcher with all groups, not applied."""
        from patcher_core import Patcher

        return Patcher().add(*self.load_groups(), options=self.options or None)

    def import_library(self) -> None:
        """Import the library as a program would that uses all of it."""
        for name in self.modules:
            importlib.import_module(name)
        for target in self.targets:
            _owner_and_name(target.name)

    def import_what_works_unpatched(self) -> None:
        """Import as much of the library as can be imported without the patches, which may be what makes it work."""
        for name in self.modules:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        self.snapshot()

    def snapshot(self) -> dict[str, Slot]:
        """What each target holds now, by its path; UNREADABLE where what leads to it cannot be imported."""
        unreadable: set[str] = set()
        return {target.name: _read_if_possible(target.name, unreadable) for target in self.targets}


class _Marker:
    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


#: The owner has no such attribute.
NOTHING = _Marker("nothing")


class Slot(NamedTuple):
    """The raw content of an attribute or key."""

    #: whether the owner itself holds it, rather than inheriting it
    is_own: bool
    #: the object as stored (a staticmethod, not the function in it), or NOTHING
    value: Any

    def is_same(self, other: Slot) -> bool:
        return self.is_own == other.is_own and self.value is other.value

    @property
    def function(self) -> Any:
        """The function in a staticmethod or classmethod; otherwise the value."""
        return getattr(self.value, "__func__", self.value)


#: Of a target whose module cannot be imported.
UNREADABLE = Slot(False, _Marker("unreadable"))


def _read_if_possible(path: str, unreadable: set[str]) -> Slot:
    """`unreadable` collects owners, so that an import that fails is tried once and not for each of its names."""
    owner = path.rpartition(".")[0]
    if owner not in unreadable:
        try:
            return read(path)
        except (ImportError, AttributeError):
            unreadable.add(owner)
    return UNREADABLE


def read(path: str) -> Slot:
    """Read a target: a module, a module's or class's attribute, a dict's key, or a name in a registry.

    Raises:
        ImportError, AttributeError: what leads to it does not exist.
    """
    try:
        owner, name = _owner_and_name(path)
    except ModuleNotFoundError as error:
        if error.name != path:
            raise
        return Slot(False, NOTHING)  # a library as a whole, which a patch may supply
    registered = getattr(owner, "_module_dict", None)
    if isinstance(registered, dict):
        owner = registered
    if isinstance(owner, dict):
        return Slot(name in owner, owner.get(name, NOTHING))
    if inspect.ismodule(owner):
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(path)
        getattr(owner, name, None)  # a lazy module loads the name now rather than between two snapshots
    return Slot(name in vars(owner), inspect.getattr_static(owner, name, NOTHING))


def _owner_and_name(path: str) -> tuple[Any, str]:
    *parts, name = path.split(".")
    owner: Any = None
    for count in range(1, len(parts) + 1):
        try:
            owner = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError as error:
            if error.name != ".".join(parts[:count]):
                raise
            for part in parts[count - 1 :]:
                owner = owner[part] if isinstance(owner, dict) else getattr(owner, part)
            break
    if owner is None:
        importlib.import_module(name)
        return sys.modules, name
    return owner, name
