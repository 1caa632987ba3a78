"""A patch that is no attribute: it says itself how it is put in and taken out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, Collection, NamedTuple

from .installation import Installation
from .patches import BasePatch
from .results import Line, PatchStatus, described_error

if TYPE_CHECKING:
    from .journal import Change
    from .patcher import Patcher


class PutIn(NamedTuple):
    """What came of putting a :class:`CustomPatch` in.

    Attributes:
        status: ``applied``, ``skipped`` or ``pending``; what is pending is tried again when a module that leads to the
            patch's name is imported.
        reason: why, or what else is worth knowing.
        undo: takes out what was put in; None where nothing was.
    """

    status: PatchStatus
    reason: str = ""
    undo: Callable[[], None] | None = None


class CustomPatch(BasePatch):
    """Base of patches of what is no attribute, such as a kernel that a library keeps in a table of its own.

    A subclass sets ``name``, a dotted path under which it is reported, and overrides :meth:`put_in`.
    """

    installation_class = "patcher_core.custom_patch:CustomInstallation"

    def put_in(self, holder: Patcher, *, imports: bool) -> PutIn:
        """Put it in for a patcher, which asks once more as long as there was nothing to undo.

        Args:
            holder: the patcher; its text is what a report may call it.
            imports: may modules be imported for it; where not, what needs one is ``pending``.

        Raises:
            Exception: the patch has failed, which the report says; what it put in until then it must have taken out.
        """
        raise NotImplementedError


class CustomInstallation(Installation):
    """A :class:`CustomPatch` in one patcher."""

    patch: CustomPatch
    _undo: Callable[[], None] | None = None

    def install(self, changes: list[Change], *, imports: bool, executed: Collection[str] = ()) -> None:
        if self._undo is None:
            try:
                status, reason, self._undo = self.patch.put_in(self.holder, imports=imports)
            except Exception as error:
                status, reason = PatchStatus.FAILED, described_error(error)
            self.lines = {self.patch.name: Line(self.patch.name, status, reason)}

    def remove(self, changes: list[Change]) -> list[str]:
        if self._undo is not None:
            self._undo()
            self._undo = None
        return super().remove(changes)
