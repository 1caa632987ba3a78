"""What happened: the status and result of every patch, and the report of one ``apply()``."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Iterable, Iterator, NamedTuple

if TYPE_CHECKING:
    from .imports import ImportOutcome


class PatchStatus(str, enum.Enum):
    """How far a patch got."""

    APPLIED = "applied"
    SKIPPED = "skipped"
    FAILED = "failed"
    PENDING = "pending"

    def __str__(self) -> str:
        return self.value


class Line:
    """How one path of a patch fared; ``doubt`` is what may go wrong although it was applied."""

    __slots__ = ("doubt", "path", "reason", "status")

    def __init__(self, path: str, status: PatchStatus, reason: str = "", doubt: str = "") -> None:
        self.path = path
        self.status = status
        self.reason = reason
        self.doubt = doubt


class PatchResult(NamedTuple):
    """The outcome for one target (or alias) of one patch.

    Attributes:
        status: how far it got.
        name: the target's dotted path, or the group's name where the whole group was left out.
        module: first segment of the target.
        reason: why it was skipped or failed; for an applied one what else is worth knowing.
        group: name of the :class:`~patcher_core.Patch` that it belongs to, "" for a patch added on its own.
        alias_of: the target of the patch where this line is about one of its aliases, else "".
        backend: which implementation was taken, and why; "" where there is only one.
        rebound: stale copies that now hold the replacement, as dotted paths.
        version: version of the library that was found, None if unknown.
        quiet: not worth a line in the summary: the library is simply not installed.
        doubt: what may go wrong although it was applied; stands in ``reason`` as well.
    """

    status: PatchStatus
    name: str
    module: str
    reason: str = ""
    group: str = ""
    alias_of: str = ""
    backend: str = ""
    rebound: tuple[str, ...] = ()
    version: str | None = None
    quiet: bool = False
    doubt: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON-compatible values."""
        return {**self._asdict(), "status": self.status.value, "rebound": list(self.rebound)}


class ApplyReport:
    """Everything that a patcher has done so far: one line per target, the import control, the environment.

    Iterating gives the :class:`PatchResult` lines in the order of the patches.
    """

    def __init__(
        self,
        results: tuple[PatchResult, ...] = (),
        imports: tuple[ImportOutcome, ...] = (),
        notes: tuple[str, ...] = (),
    ) -> None:
        #: one line per target or alias
        self.results = results
        #: skipped, replaced and injected imports
        self.imports = imports
        #: what concerns no single target: stale references, environment steps, sets that failed to load
        self.notes = notes

    def __iter__(self) -> Iterator[PatchResult]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def with_status(self, status: PatchStatus | str) -> tuple[PatchResult, ...]:
        """The lines that have ``status``."""
        wanted = PatchStatus(status)
        return tuple(result for result in self.results if result.status is wanted)

    @property
    def applied(self) -> tuple[PatchResult, ...]:
        return self.with_status(PatchStatus.APPLIED)

    @property
    def skipped(self) -> tuple[PatchResult, ...]:
        return self.with_status(PatchStatus.SKIPPED)

    @property
    def failed(self) -> tuple[PatchResult, ...]:
        return self.with_status(PatchStatus.FAILED)

    @property
    def pending(self) -> tuple[PatchResult, ...]:
        return self.with_status(PatchStatus.PENDING)

    def to_dict(self) -> dict[str, Any]:
        """The whole report as JSON-compatible values."""
        return {
            "results": [result.to_dict() for result in self.results],
            "imports": [outcome._asdict() for outcome in self.imports],
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        from .reporting.text import render_summary

        return render_summary(self, set())


def described_error(error: BaseException) -> str:
    """``Type: text`` of an error, with the cause that it was raised from."""
    text = f"{type(error).__name__}: {error}"
    cause = error.__cause__
    return f"{text} (caused by {described_error(cause)})" if cause is not None else text


def with_versions(results: Iterable[PatchResult]) -> Iterator[PatchResult]:
    """The results with the version of each library, looked up once; without it where they are quiet."""
    versions: dict[str, str | None] = {}
    for result in results:
        if result.version is None and result.module and not result.quiet:
            if result.module not in versions:
                from .library_version import get_version

                versions[result.module] = get_version(result.module)
            result = result._replace(version=versions[result.module])
        yield result
