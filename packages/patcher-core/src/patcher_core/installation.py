"""What was added to a patcher, and what it keeps of each patch: base of the kinds, which put one in and take it out."""

from __future__ import annotations

from typing import Any, Callable, Collection, Iterable, Iterator, Sequence

from .events import PatchError
from .journal import Change, Layer, journal
from .results import Line, PatchResult, PatchStatus


class Selection:
    """What a patcher chose for all of its entries."""

    def __init__(self, is_disabled: Callable[[Entry], bool], backend: str | None) -> None:
        self.is_disabled = is_disabled
        self.backend = backend


class Entry:
    """A patch, group or installed patch set in one patcher.

    Attributes:
        item: the patch, group class, group instance or patch set.
        holder: the patcher.
        group: name of the group that it is or belongs to. backend, version: what was found for that.
        members: what a group or set unfolded into; empty before :meth:`collect`.
        outcome: one result for the whole entry where it did not come to its patches, else None.
    """

    is_set = False
    is_group = False
    group: str = ""
    backend: str = ""
    version: str | None = None
    members: Sequence[Entry] = ()
    outcome: PatchResult | None = None
    _collected = False

    item: Any
    holder: Any

    @property
    def name(self) -> str:
        return str(self.item.name)

    @property
    def cls(self) -> Any:
        """The group's class; the item itself where it is no group."""
        return self.item

    @property
    def names(self) -> set[str]:
        """Everything that :meth:`Patcher.disable` may call it."""
        return {self.name, getattr(self.item, "legacy_name", "")} - {""}

    @property
    def library(self) -> str:
        """Import root of what is patched, for reports: as the group says, else the first segment of the name."""
        return self.name.partition(".")[0] if "." in self.name else ""

    def is_meant_by(self, disabled: Any) -> bool:
        """True if ``disabled`` (a name, class or instance) is this entry."""
        if isinstance(disabled, str):
            return disabled in self.names
        return disabled is self.item or (isinstance(disabled, type) and disabled is self.cls)

    def collect(self, choice: Selection, *, imports: bool) -> None:
        """Check the pins and find out what it consists of, once."""
        raise NotImplementedError

    def enabled_installations(self, choice: Selection) -> Sequence[Installation]:
        """The installations of this entry and of its members, in order, less what is disabled."""
        raise NotImplementedError

    @property
    def tree(self) -> Sequence[Installation]:
        """All installations of this entry and of its members."""
        raise NotImplementedError

    def results(self) -> Iterator[PatchResult]:
        """One line per target and alias, or the one outcome of the whole entry."""
        raise NotImplementedError

    def walk(self) -> Sequence[Entry]:
        """This entry and all its members."""
        if not self.members:
            return (self,)
        return [self, *(part for member in self.members for part in member.walk())]

    def result(self, status: PatchStatus, reason: str, quiet: bool = False) -> PatchResult:
        return PatchResult(
            status, self.name, self.library, reason, self.group, version=self.version, quiet=quiet
        )

    def _take_from(self, parent: Entry) -> None:
        """What a member has from the entry that it is a member of."""
        self.group, self.backend = parent.group, parent.backend
        if parent.version is not None and parent.library == self.library:
            self.version = parent.version

    def _pins(self) -> list[str | tuple[str, ...]]:
        """What must hold, one requirement of each."""
        return [self.item.requires] if self.item.requires else []

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


class Installation(Entry):
    """A patch in a patcher, base of the kinds.

    Attributes:
        lines: how each path fared so far, by path; a :class:`Layer` where something was written.
    """

    def __init__(self, patch: Any, holder: Any, parent: Entry | None = None) -> None:
        self.patch = self.item = patch
        self.holder = holder
        self.outcome = None
        self.lines: dict[str, Line] = {}
        if parent is not None:
            self._take_from(parent)

    def collect(self, choice: Selection, *, imports: bool) -> None:
        if self.patch.requires and not self._collected:
            self.outcome = None
            self._collected = self._pins_hold()

    def enabled_installations(self, choice: Selection) -> Sequence[Installation]:
        return (self,) if self.outcome is None else ()

    @property
    def tree(self) -> Sequence[Installation]:
        return (self,) if self.outcome is None else ()

    def all_lines(self) -> Iterable[Line]:
        """How each path fared, in order."""
        return self.lines.values()

    @property
    def layers(self) -> list[Layer]:
        """What it wrote, in order."""
        return [line for line in self.lines.values() if isinstance(line, Layer)]

    def results(self) -> Iterator[PatchResult]:
        if self.outcome is not None:
            yield self.outcome
        for line in self.lines.values():
            copies = (isinstance(line, Layer) and line.attribute.copies) or ()
            library = line.path.partition(".")[0]
            yield PatchResult(
                line.status,
                line.path,
                library,
                line.reason,
                self.group,
                self.alias_of(line.path),
                self.backend,
                tuple(f"{module}.{name}" for module, name in copies),
                self.version if library == self.library else None,
                doubt=line.doubt,
            )

    def alias_of(self, path: str) -> str:
        """The target that ``path`` is an alias of; "" if it is none."""
        return ""

    def build(self, layer: Layer) -> Any:
        """The raw value that belongs on top of ``layer.old``; asked again when a layer below goes away."""
        return layer.new

    def install(self, changes: list[Change], *, imports: bool, executed: Collection[str] = ()) -> None:
        """Put in what is not in yet.

        Args:
            changes: what is changed is added here.
            imports: may modules be imported for it; where not, a line stays ``pending``.
            executed: names of modules whose code has run although their import is not finished.
        """
        raise NotImplementedError

    def is_installed_in(self, module_name: str) -> bool:
        """True if something of this patch is in that module already."""
        return any(layer.attribute.module_name == module_name for layer in self.layers)

    @property
    def modules_awaited(self) -> Collection[str]:
        """Names of modules whose import or reload concerns this patch."""
        names: list[str] = []
        for line in self.lines.values():
            if isinstance(line, Layer):
                names.append(line.attribute.module_name)
            elif line.status is PatchStatus.PENDING:
                names += _possible_modules(line.path)
        return names

    def remove(self, changes: list[Change]) -> list[str]:
        """Take out everything; adds what changed to ``changes``, gives back remarks on what could not be undone."""
        remarks = [self._remove_layer(layer, changes) for layer in reversed(self.layers)]
        self.lines.clear()
        return [remark for remark in remarks if remark]

    def _remove_layer(self, layer: Layer, changes: list[Change]) -> str:
        return journal.remove(layer, changes)


def _possible_modules(path: str) -> Iterator[str]:
    """Every part of a path, shortest first, that may name a module."""
    parts = path.split(".")
    for depth in range(1, len(parts)):
        if not parts[depth - 1].isidentifier():
            break  # a key of a dict
        yield ".".join(parts[:depth])


def call_with_known_arguments(function: Callable[..., Any], known: dict[str, Any]) -> Any:
    """Call ``function`` with those of the ``known`` arguments that its parameters name.

    Raises:
        PatchError: it requires a parameter that is not known.
    """
    from .signatures import parameters

    found = parameters(function)
    if found is None:
        return function()
    names = [*found.positional, *found.keyword_only]
    required = {*found.positional[: found.required], *found.keyword_only} - set(found.keyword_defaults)
    unknown = sorted(required - known.keys())
    if unknown:
        raise PatchError(
            f"{getattr(function, '__name__', function)!r} requires {', '.join(unknown)};"
            f" known arguments are {', '.join(known)}"
        )
    return function(**{name: known[name] for name in names if name in known})
