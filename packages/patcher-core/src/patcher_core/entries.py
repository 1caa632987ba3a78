"""How what was added to a patcher unfolds: groups and patch sets into members, down to installations."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, Collection, Iterator, Mapping, Sequence

from .discovery import PatchSet, patch_set_of
from .groups import Patch
from .installation import Entry, Installation, Selection
from .journal import Change
from .patches import AtomicPatch, BasePatch
from .replacing import AtomicInstallation
from .results import Line, PatchResult, PatchStatus, described_error
from .source_version import is_importable


def is_group(item: Any) -> bool:
    """True for a group of patches: a :class:`Patch`, its class, or a class that has ``patches, name, apply_all``."""
    if isinstance(item, Patch) or (isinstance(item, type) and issubclass(item, Patch)):
        return item is not Patch
    return isinstance(item, type) and all(hasattr(item, name) for name in ("patches", "name", "apply_all"))


class GroupEntry(Entry):
    """A group or an installed patch set in one patcher.

    Attributes:
        installations: what waits for a library until the members can be known.
        patch_set: the patch set whose ``DEFAULT`` lists this group; None for what was added by itself.
    """

    patch_set: PatchSet | None = None
    options: dict[str, Any] | None = None
    installations: Sequence[Installation] = ()

    def __init__(
        self, item: Any, options: Mapping[str, Any] | None, holder: Any, parent: Entry | None = None
    ) -> None:
        self.item = item
        self.holder = holder
        if options is not None:
            self.options = dict(options)
        elif isinstance(item, Patch):
            self.options = dict(item.options) or None
        self.is_set = isinstance(item, PatchSet)
        self.is_group = not self.is_set
        if parent is not None:
            self._take_from(parent)
            if parent.is_set:
                self.patch_set = parent.item
        if self.is_group:
            self.group = self.name

    @property
    def name(self) -> str:
        return str(self.item.distribution.name if self.is_set else self.item.name)

    @property
    def cls(self) -> Any:
        return type(self.item) if self.is_group and not isinstance(self.item, type) else self.item

    @property
    def names(self) -> set[str]:
        return super().names | {self.item.module if self.is_set else self.cls.__name__}

    @property
    def applies_before_collect(self) -> bool:
        """True for a group that must be applied before others are asked for their patches."""
        return bool(getattr(self.item, "apply_before_collect", False))

    @property
    def library(self) -> str:
        if self.is_set:
            return str(self.item.libraries[0])
        return str(getattr(self.item, "library", "") or super().library)

    # ------------------------------------------------------------------ unfolding
    def collect(self, choice: Selection, *, imports: bool) -> None:
        """Check the pins, choose the backend and ask the group for its patches, once.

        With ``imports=False`` a set, each group that it lists, and a group that must know which backend is here,
        wait for their library.
        """
        if self._collected:
            return
        self.outcome = None
        self.installations = ()
        awaited = () if imports else self._libraries_to_await()
        if awaited:
            self.installations = (Deferral(self, awaited, choice),)
        elif self.is_set or self._pins_hold():
            self._collect_members(choice, imports)

    def _libraries_to_await(self) -> tuple[str, ...]:
        """Import roots of which one must be imported before this entry can unfold without importing anything."""
        libraries: tuple[str, ...] = ()
        library = getattr(self.item, "library", "")
        if self.is_set:
            libraries = self.item.libraries
        elif self.patch_set is not None and library in self.patch_set.libraries and is_importable(library):
            libraries = (library,)
        elif getattr(self.item, "backends", ()):
            patch_set = self._own_set()
            libraries = patch_set.libraries if patch_set is not None else ()
        return () if any(library in sys.modules for library in libraries) else libraries

    def _collect_members(self, choice: Selection, imports: bool) -> None:
        found = self._set_members() if self.is_set else self._group_members(choice)
        if found is None:
            return
        self.members = found
        self._collected = True
        for member in found:
            if not choice.is_disabled(member):
                member.collect(choice, imports=imports)

    def _set_members(self) -> list[Entry] | None:
        """The ``DEFAULT`` groups of a patch set; None where its libraries are not here or it does not load."""
        if not self.item.has_library():
            reason = f"{' and '.join(self.item.libraries)} not installed"
            self.outcome = self.result(PatchStatus.SKIPPED, reason, quiet=True)
            return None
        groups = self.item.load_default()
        if groups is None:
            self.outcome = self.result(
                PatchStatus.FAILED, f"does not load: {described_error(self.item.error)}"
            )
            return None
        return [entry_of(item, self.options, self.holder, self) for item in groups]

    def _group_members(self, choice: Selection) -> list[Entry] | None:
        options = self._options_with_backend(choice.backend)
        if self.outcome is not None:
            return None
        try:
            return [entry_of(item, self.options, self.holder, self) for item in self.item.patches(options)]
        except Exception as error:
            self.outcome = self.result(PatchStatus.FAILED, f"patches() raised {described_error(error)}")
            return None

    def _pins(self) -> list[str | tuple[str, ...]]:
        """The pins of its library in its distribution, and its own, which may narrow them."""
        pins: list[str | tuple[str, ...]] = []
        library = getattr(self.item, "library", "")
        patch_set = self._own_set() if library else None
        if patch_set is not None:
            pins.append(patch_set.pins().of_library(library))
        pins.append(getattr(self.item, "requires", ()))
        return [alternatives for alternatives in pins if alternatives]

    def _own_set(self) -> PatchSet | None:
        """The patch set that the group's class belongs to, mostly the one that lists it."""
        module_name = self.cls.__module__
        if self.patch_set is not None and self.patch_set.has_module(module_name):
            return self.patch_set
        return patch_set_of(module_name)

    def _options_with_backend(self, forced: str | None) -> dict[str, Any] | None:
        offered = tuple(getattr(self.item, "backends", ()))
        if not offered:
            return self.options
        from .backends import ORIGINAL, choose

        original_runs_here = getattr(self.cls, "original_runs_here", None)
        choice = choose(offered, forced=forced, options=self.options, original_runs_here=original_runs_here)
        if choice.backend in ("", ORIGINAL):
            self.outcome = self.result(PatchStatus.SKIPPED, choice.why)
            return None
        self.backend = choice.backend + (f" ({choice.why})" if choice.why else "")
        return {**(self.options or {}), "backend": choice.backend}

    # ------------------------------------------------------------------ walking
    def enabled_installations(self, choice: Selection) -> Sequence[Installation]:
        enabled = [member for member in self.members if not choice.is_disabled(member)]
        return [
            *self.installations,
            *(one for member in enabled for one in member.enabled_installations(choice)),
        ]

    @property
    def tree(self) -> Sequence[Installation]:
        return [*self.installations, *(one for member in self.members for one in member.tree)]

    def surviving_groups(self, choice: Selection) -> Iterator[Entry]:
        """Once collected: the groups in this entry that are to be applied, less what is disabled or not for here."""
        if self.is_group and self.outcome is None:
            yield self
        for member in self.members:
            if isinstance(member, GroupEntry) and not choice.is_disabled(member):
                yield from member.surviving_groups(choice)

    def results(self) -> Iterator[PatchResult]:
        if self.outcome is not None:
            yield self.outcome
        for part in (*self.installations, *self.members):
            yield from part.results()


class Deferral(Installation):
    """An entry that waits for one of its libraries to be imported before it unfolds."""

    def __init__(self, entry: GroupEntry, libraries: tuple[str, ...], choice: Selection) -> None:
        super().__init__(entry.item, entry.holder)
        self.entry = entry
        self._libraries = libraries
        self._choice = choice

    def install(self, changes: list[Change], *, imports: bool, executed: Collection[str] = ()) -> None:
        if not imports and not any(library in sys.modules for library in self._libraries):
            return
        self.entry.collect(self._choice, imports=imports)
        members = [one for one in self.entry.enabled_installations(self._choice) if one is not self]
        for one in members:
            one.install(changes, imports=imports, executed=executed)

    @property
    def modules_awaited(self) -> set[str]:
        members = (one for one in self.entry.enabled_installations(self._choice) if one is not self)
        return set(self._libraries).union(*(one.modules_awaited for one in members))

    def all_lines(self) -> Iterator[Line]:
        reason = f"waiting for the import of {' or '.join(self._libraries)}"
        yield Line(self.entry.name, PatchStatus.PENDING, reason)

    def results(self) -> Iterator[PatchResult]:
        for line in self.all_lines():
            is_unasked = self.entry.is_set or self.entry.patch_set is not None
            yield self.entry.result(line.status, line.reason, quiet=is_unasked)


def _way_to_add(item: Any) -> str:
    """What to write in place of something that add() does not take."""
    if isinstance(item, ModuleType):
        return f"; write add(*{item.__name__}.ALL)" if hasattr(item, "ALL") else ""
    if isinstance(item, (list, tuple)):
        return "; write add(*patches)"
    if callable(item) and not isinstance(item, type):
        return "; wrap a function as LegacyPatch(func, target_module=...)"
    return ""


def entry_of(
    item: Any, options: Mapping[str, Any] | None = None, holder: Any = None, parent: Entry | None = None
) -> Entry:
    """The entry of a patch, group or patch set; ``options`` are those of a group.

    Args:
        parent: the entry that lists it; None for what was added by itself.

    Raises:
        TypeError: it is none of them.
    """
    if type(item) is AtomicPatch:
        return AtomicInstallation(item, holder, parent)
    if is_group(item) or isinstance(item, PatchSet):
        return GroupEntry(item, options, holder, parent)
    cls = item.installation_class if isinstance(item, BasePatch) else None
    if cls is None and parent is None:
        raise TypeError(f"add() takes Patch classes and patches, got {item!r}{_way_to_add(item)}")
    if cls is None:
        raise TypeError(
            f"patches() must list patches, found {item!r}; use AtomicPatch, RegistryPatch or LegacyPatch"
        )
    if isinstance(cls, str):
        from importlib import import_module

        module_name, _, class_name = cls.partition(":")
        cls = getattr(import_module(module_name), class_name)
    made: Entry = cls(item, holder, parent)
    return made


def check_conflicts(entries: list[Entry]) -> str:
    """The text of the first conflict between two entries that are both enabled; "" without one."""
    groups = [entry for entry in entries if entry.is_group]
    for entry in groups:
        for conflicting in getattr(entry.cls, "conflicts_with", ()):
            for other in groups:
                if other is not entry and other.is_meant_by(conflicting):
                    return (
                        f"{entry.name} and {other.name} cannot be enabled together. Disable one of them:\n"
                        f"    patcher.disable({other.name!r})\n"
                        f"    patcher.disable({entry.name!r})"
                    )
    return ""
