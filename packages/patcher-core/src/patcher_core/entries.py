"""What was added to a patcher, and the installations that it unfolds into."""

from __future__ import annotations

import sys
from typing import Any, Callable, Collection, Iterator, Mapping, NamedTuple, Sequence

from .discovery import PatchSet, patch_set_of
from .groups import Patch
from .installation import Installation, Line
from .journal import Transition
from .patches import AtomicPatch, BasePatch
from .replacing import AtomicInstallation
from .results import PatchResult, PatchStatus, described_error
from .source_version import is_importable


def is_group(item: Any) -> bool:
    """True for a group of patches: a :class:`Patch`, its class, or a class that has ``patches, name, apply_all``."""
    if isinstance(item, Patch) or (isinstance(item, type) and issubclass(item, Patch)):
        return item is not Patch
    return isinstance(item, type) and all(hasattr(item, name) for name in ("patches", "name", "apply_all"))


class Selection(NamedTuple):
    """What a patcher chose for all of its entries."""

    is_disabled: Callable[[Entry], bool]
    backend: str | None


class Entry:
    """One patch, group or installed patch set in one patcher.

    Attributes:
        item: the patch, group class, group instance or patch set.
        installations: what it unfolded into; empty before :meth:`collect`.
        outcome: one result for the whole entry where it did not come to its patches, else None.
        patch_set: the patch set whose ``DEFAULT`` lists this group; None for what was added by itself.
    """

    patch_set: PatchSet | None = None
    options: dict[str, Any] | None = None
    is_set = False
    is_group = False
    group: str = ""
    backend: str = ""
    version: str | None = None
    members: Sequence[Entry] = ()
    installations: Sequence[Installation] = ()
    outcome: PatchResult | None = None
    _collected = False

    def __init__(
        self, item: Any, options: Mapping[str, Any] | None, holder: Any, parent: Entry | None = None
    ) -> None:
        self.item = item
        self.holder = holder
        if parent is not None:
            self.group, self.backend = parent.group, parent.backend
            if parent.is_set:
                self.patch_set = parent.item
        if type(item) is AtomicPatch:
            self.name = item.name
        else:
            self._take(item, options)
        if parent is not None and parent.version is not None and parent.library == self.library:
            self.version = parent.version

    def _take(self, item: Any, options: Mapping[str, Any] | None) -> None:
        """What an item may be besides an :class:`AtomicPatch`."""
        if options is not None:
            self.options = dict(options)
        elif isinstance(item, Patch):
            self.options = dict(item.options) or None
        self.is_set = isinstance(item, PatchSet)
        self.is_group = not self.is_set and is_group(item)
        self.name = item.distribution.name if self.is_set else str(item.name)
        if self.is_group:
            self.group = self.name

    @property
    def cls(self) -> Any:
        """The group's class; the item itself where it is no group."""
        return type(self.item) if self.is_group and not isinstance(self.item, type) else self.item

    @property
    def names(self) -> set[str]:
        """Everything that :meth:`Patcher.disable` may call it."""
        names = {self.name, getattr(self.item, "legacy_name", "")}
        if self.is_group:
            names.add(self.cls.__name__)
        if self.is_set:
            names.add(self.item.module)
        return names - {""}

    def is_meant_by(self, disabled: Any) -> bool:
        """True if ``disabled`` (a name, class or instance) is this entry."""
        if isinstance(disabled, str):
            return disabled in self.names
        return disabled is self.item or (isinstance(disabled, type) and disabled is self.cls)

    # ------------------------------------------------------------------ unfolding
    def collect(self, choice: Selection, *, imports: bool) -> None:
        """Check the pins, choose the backend and ask the group for its patches, once.

        With ``imports=False`` a set, each group that it lists, and a group that must know which backend is here,
        wait for their library.
        """
        if self._collected:
            return
        self.outcome = None
        if isinstance(self.item, AtomicPatch) and not self.item.requires:
            self.installations = (AtomicInstallation(self.item, self),)  # by far the commonest case
            self._collected = True
            return
        self.installations = ()
        awaited = () if imports else self._libraries_to_await()
        if awaited:
            self.installations = (Deferral(self, awaited, choice),)
        elif not self.is_set and not self._pins_hold():
            pass
        elif self.is_set or self.is_group:
            self._collect_members(choice, imports)
        else:
            self.installations = (_installation_of(self.item, self),)
            self._collected = True

    def _libraries_to_await(self) -> tuple[str, ...]:
        """Import roots of which one must be imported before this entry can unfold without importing anything."""
        libraries: tuple[str, ...] = ()
        library = getattr(self.item, "library", "")
        if self.is_set:
            libraries = self.item.libraries
        elif self.patch_set is not None and library in self.patch_set.libraries and is_importable(library):
            libraries = (library,)
        elif getattr(self.item, "backends", ()):
            patch_set = patch_set_of(self.cls.__module__)
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
        if not self.item.importable_libraries():
            reason = f"{' and '.join(self.item.libraries)} not installed"
            self.outcome = self.result(PatchStatus.SKIPPED, reason, quiet=True)
            return None
        groups = self.item.load_default()
        if groups is None:
            self.outcome = self.result(
                PatchStatus.FAILED, f"does not load: {described_error(self.item.error)}"
            )
            return None
        return [Entry(item, self.options, self.holder, self) for item in groups]

    def _group_members(self, choice: Selection) -> list[Entry] | None:
        options = self._options_with_backend(choice.backend)
        if self.outcome is not None:
            return None
        try:
            return [self._member(item) for item in self.item.patches(options)]
        except Exception as error:
            self.outcome = self.result(PatchStatus.FAILED, f"patches() raised {described_error(error)}")
            return None

    def _member(self, item: Any) -> Entry:
        if is_group(item):
            return Entry(item, self.options, self.holder, self)
        if not isinstance(item, BasePatch) or item.installation_class is None:
            raise TypeError(
                f"patches() must list patches, found {item!r}; use AtomicPatch, RegistryPatch or LegacyPatch"
            )
        return Entry(item, None, self.holder, self)

    def _pins_hold(self) -> bool:
        try:
            pins = self._pins()
            if not pins:
                return True
            from .requirements import check_requirements

            for alternatives in pins:
                check = check_requirements(alternatives)
                self.version = self.version or check.version
                if not check.is_satisfied:
                    self.outcome = self.result(PatchStatus.SKIPPED, check.reason, quiet=not check.is_visible)
                    return False
        except (TypeError, ValueError) as error:
            self.outcome = self.result(PatchStatus.FAILED, str(error))
            return False
        return True

    def _pins(self) -> list[str | tuple[str, ...]]:
        """What must hold: the pins of its library in its distribution, and its own, which may narrow them."""
        pins: list[str | tuple[str, ...]] = []
        library = getattr(self.item, "library", "") if self.is_group else ""
        patch_set = patch_set_of(self.cls.__module__) if library else None
        if patch_set is not None:
            pins.append(patch_set.pins().of_library(library))
        pins.append(getattr(self.item, "requires", ()))
        return [alternatives for alternatives in pins if alternatives]

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

    def result(self, status: PatchStatus, reason: str, quiet: bool = False) -> PatchResult:
        return PatchResult(
            status, self.name, self.library, reason, self.group, version=self.version, quiet=quiet
        )

    @property
    def library(self) -> str:
        """Import root of what is patched, for reports: as the group says, else the first segment of the name."""
        if self.is_set:
            return str(self.item.libraries[0])
        declared: Any = getattr(self.item, "library", None)
        if self.is_group and declared:
            return str(declared)
        return self.name.partition(".")[0] if "." in self.name else ""

    # ------------------------------------------------------------------ walking
    def enabled_installations(self, choice: Selection) -> Sequence[Installation]:
        """The installations of this entry and of its members, in order, less what is disabled."""
        if not self.members:
            return self.installations
        enabled = [member for member in self.members if not choice.is_disabled(member)]
        return [
            *self.installations,
            *(one for member in enabled for one in member.enabled_installations(choice)),
        ]

    def surviving_groups(self, choice: Selection) -> Iterator[Entry]:
        """Once collected: the groups in this entry that are to be applied, less what is disabled or not for here."""
        if self.is_group and self.outcome is None:
            yield self
        for member in self.members:
            if not choice.is_disabled(member):
                yield from member.surviving_groups(choice)

    def walk(self) -> Sequence[Entry]:
        """This entry and all its members."""
        if not self.members:
            return (self,)
        return [self, *(part for member in self.members for part in member.walk())]

    @property
    def tree(self) -> Sequence[Installation]:
        """All installations of this entry and of its members."""
        if not self.members:
            return self.installations
        return [installation for entry in self.walk() for installation in entry.installations]

    def results(self) -> Iterator[PatchResult]:
        """One line per target and alias, or the one outcome of the whole entry."""
        if self.outcome is not None:
            yield self.outcome
        for installation in self.installations:
            yield from installation.results()
        for member in self.members:
            yield from member.results()


class Deferral(Installation):
    """An entry that waits for one of its libraries to be imported before it unfolds."""

    def __init__(self, entry: Entry, libraries: tuple[str, ...], choice: Selection) -> None:
        super().__init__(entry.item, entry)
        self._libraries = libraries
        self._choice = choice

    def install(self, *, imports: bool, executed: Collection[str] = ()) -> list[Transition]:
        if not imports and not any(library in sys.modules for library in self._libraries):
            return []
        self.entry.collect(self._choice, imports=imports)
        members = [one for one in self.entry.enabled_installations(self._choice) if one is not self]
        return [change for one in members for change in one.install(imports=imports, executed=executed)]

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


def _installation_of(item: BasePatch, entry: Entry) -> Installation:
    cls = item.installation_class
    if isinstance(cls, str):
        from importlib import import_module

        module_name, _, class_name = cls.partition(":")
        cls = getattr(import_module(module_name), class_name)
    installation: Installation = cls(item, entry)
    return installation


def checked_item(item: Any) -> Any:
    """``item`` if a patcher can take it; TypeError that says what it takes otherwise."""
    if (
        (isinstance(item, BasePatch) and type(item) is not BasePatch)
        or is_group(item)
        or isinstance(item, PatchSet)
    ):
        return item
    raise TypeError(
        f"add() takes Patch classes and patches, got {item!r}; wrap a function as LegacyPatch(func, target_module=...)"
    )


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
