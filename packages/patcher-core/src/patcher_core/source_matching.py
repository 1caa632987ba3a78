"""A :class:`~patcher_core.source_match.SourceMatchPatch` in one patcher."""

from __future__ import annotations

import fnmatch
import re
import sys
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Collection, Iterator

from .attributes import TargetError, module_dict
from .descriptors import underlying
from .fingerprints import NoSource, SourceFingerprint, definitions, module_source
from .installation import Installation
from .journal import Change, journal
from .patches import AtomicPatch
from .replacing import AtomicInstallation
from .results import Line, PatchResult, PatchStatus
from .source_match import SourceMatchPatch
from .targets import is_unfinished, locate

if TYPE_CHECKING:
    from .installation import Entry


class SourceMatchInstallation(Installation):
    """Looks at each matching module once its code has run, and patches what it knows there."""

    patch: SourceMatchPatch
    _is_looking = False

    def __init__(self, patch: SourceMatchPatch, holder: Any, parent: Entry | None = None) -> None:
        super().__init__(patch, holder, parent)
        self._matches_module = re.compile(fnmatch.translate(patch.modules)).match
        self._parts: dict[str, AtomicInstallation] = {}
        self._seen: dict[str, Any] = {}

    def install(self, changes: list[Change], *, imports: bool, executed: Collection[str] = ()) -> None:
        self._is_looking = True
        # After an import only what was imported is of interest; otherwise everything that is there.
        names = list(executed) or list(sys.modules)
        for name in names:
            module = sys.modules.get(name)
            if not name.startswith(self.patch.module) or not self._matches_module(name):
                continue
            if isinstance(module, ModuleType) and (name in executed or not is_unfinished(module)):
                self._look_at(name, module)
        for path, part in list(self._parts.items()):
            if not executed or path.startswith(tuple(executed)):
                part.install(changes, imports=False, executed=executed)

    @property
    def modules_awaited(self) -> set[str]:
        return {self.patch.modules}

    def is_installed_in(self, module_name: str) -> bool:
        return any(part.is_installed_in(module_name) for part in self._parts.values())

    def results(self) -> Iterator[PatchResult]:
        yield from super().results()
        for part in self._parts.values():
            yield from part.results()
        for line in self._pending_lines():
            yield PatchResult(
                line.status, line.path, self.patch.module, line.reason, self.group, backend=self.backend
            )

    def all_lines(self) -> Iterator[Line]:
        yield from self.lines.values()
        for part in self._parts.values():
            yield from part.lines.values()
        yield from self._pending_lines()

    def _pending_lines(self) -> Iterator[Line]:
        """One line as long as no matching module was seen."""
        if self._is_looking and not self.lines and not self._parts:
            yield Line(self.patch.name, PatchStatus.PENDING, "waiting for the import of a matching module")

    def remove(self, changes: list[Change]) -> list[str]:
        remarks = [said for part in reversed(list(self._parts.values())) for said in part.remove(changes)]
        self._parts.clear()
        self._seen.clear()
        self.lines.clear()
        self._is_looking = False
        return remarks

    def _look_at(self, name: str, module: ModuleType) -> None:
        """Sort the definitions of one module into those to patch and those to name; again after a reload."""
        spec = (module_dict(module) or {}).get("__spec__")
        if name in self._seen and self._seen[name] is spec:
            return
        self._seen[name] = spec
        source = _source(module, spec)
        if isinstance(source, NoSource):
            self.lines[name] = Line(name, PatchStatus.SKIPPED, f"left alone: {source.reason}")
            return
        try:
            found = definitions(source, self.patch.names)
        except ValueError as error:
            self.lines[name] = Line(name, PatchStatus.SKIPPED, f"left alone: {error}")
            return
        for definition in found:
            self._sort(f"{name}.{definition.qualname}", definition)

    def _sort(self, path: str, definition: SourceFingerprint) -> None:
        self.lines.pop(path, None)
        form = self.patch.forms.get(definition.fingerprint)
        reason = self.patch.left_alone.get(definition.fingerprint, "")
        if form is None:
            reason = reason or f"its source is not a known one (fingerprint {definition.fingerprint})"
        else:
            reason = _why_not_its_own(path, path[: -len(definition.qualname) - 1])
        if reason:
            self.lines[path] = Line(path, PatchStatus.SKIPPED, f"left alone: {reason}")
        elif path not in self._parts and form is not None:
            self._parts[path] = AtomicInstallation(AtomicPatch(path, **form._asdict()), self.holder, self)


#: The source that was read last, since several patches look at each module one after the other, and its ``__spec__``.
_last_read: tuple[Any, str | NoSource] = (None, "")


def _source(module: ModuleType, spec: Any) -> str | NoSource:
    global _last_read
    read = _last_read
    if spec is None or read[0] is not spec:
        _last_read = read = (spec, module_source(module))
    return read[1]


def _why_not_its_own(path: str, module_name: str) -> str:
    """Why what stands at ``path`` is not the plain function of the source: decorated, or written over by somebody."""
    try:
        attribute = locate(path, imports=False, executed=(module_name,))
    except TargetError as error:
        return str(error)
    function = underlying(journal.below(attribute.owner, attribute.name, attribute.read()))
    if not isinstance(function, FunctionType):
        return "it is not a function"
    if function.__code__.co_name != attribute.name or function.__module__ != module_name:
        return "a decorator or somebody else's patch stands in its place"
    return ""
