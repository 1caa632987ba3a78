"""What a patcher keeps for each of its patches: base of the kinds, which put one in and take it out again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Collection, Iterable, Iterator

from .events import PatchError
from .journal import Layer, Transition, journal
from .results import PatchResult, PatchStatus

if TYPE_CHECKING:
    from .entries import Entry


class Line:
    """How one path of a patch fared; ``doubt`` is what may go wrong although it was applied."""

    __slots__ = ("alias_of", "doubt", "layer", "path", "reason", "status")

    def __init__(
        self, path: str, status: PatchStatus, reason: str = "", layer: Layer | None = None, doubt: str = ""
    ) -> None:
        self.path = path
        self.status = status
        self.reason = reason
        self.layer = layer
        self.doubt = doubt
        self.alias_of = ""


class Installation:
    """Base of the three kinds: what a patcher keeps for each of its patches."""

    def __init__(self, patch: Any, entry: Entry) -> None:
        self.patch = patch
        self.entry = entry
        self.holder = entry.holder
        self.lines: dict[str, Line] = {}

    def all_lines(self) -> Iterable[Line]:
        """How each path fared, in order."""
        return self.lines.values()

    def results(self) -> Iterator[PatchResult]:
        """What the report says of each line."""
        entry = self.entry
        for line in self.lines.values():
            copies = line.layer.slot.copies if line.layer is not None else ()
            library = line.path.partition(".")[0]
            yield PatchResult(
                line.status,
                line.path,
                library,
                line.reason,
                entry.group,
                line.alias_of,
                entry.backend,
                tuple(f"{module}.{name}" for module, name in copies),
                entry.version if library == entry.library else None,
                doubt=line.doubt,
            )

    def install(self, *, imports: bool, executed: Collection[str] = ()) -> list[Transition]:
        """Put in what is not in yet.

        Args:
            imports: may modules be imported for it; where not, a line stays ``pending``.
            executed: names of modules whose code has run although their import is not finished.

        Returns:
            what changed.
        """
        raise NotImplementedError

    def is_installed_in(self, module_name: str) -> bool:
        """True if something of this patch is in that module already."""
        layers = (line.layer for line in self.lines.values() if line.layer is not None)
        return any(layer.slot.attribute.module_name == module_name for layer in layers)

    @property
    def modules_awaited(self) -> Iterable[str]:
        """Names of modules whose import or reload concerns this patch."""
        for line in self.lines.values():
            layer = line.layer
            if layer is not None:
                yield layer.slot.attribute.module_name
            elif line.status is PatchStatus.PENDING:
                parts = line.path.split(".")
                for depth in range(1, len(parts)):
                    if not parts[depth - 1].isidentifier():
                        break  # a key of a dict
                    yield ".".join(parts[:depth])

    def remove(self) -> tuple[list[Transition], list[str]]:
        """Take out everything; gives back what changed and remarks on what could not be undone."""
        transitions: list[Transition] = []
        remarks: list[str] = []
        for line in reversed(list(self.lines.values())):
            if line.layer is not None:
                changed, remark = self._remove_layer(line.layer)
                transitions += changed
                remarks += [remark] if remark else []
        self.lines.clear()
        return transitions, remarks

    def _remove_layer(self, layer: Layer) -> tuple[list[Transition], str]:
        return journal.remove(layer)


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
