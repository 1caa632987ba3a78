"""A :class:`ModulePatch` in one patcher: the module is declared at once and made when it is imported."""

from __future__ import annotations

import sys
from typing import Collection

from .imports.finder import finder
from .imports.supplied import SuppliedModule
from .installation import Installation, call_with_known_arguments
from .journal import Change
from .patches import ModulePatch
from .results import Line, PatchStatus, described_error


class ModuleInstallation(Installation):
    """Declares the module to the finder; undone, the module and the parent's attribute go away again."""

    patch: ModulePatch
    _source: SuppliedModule | None = None

    def install(self, changes: list[Change], *, imports: bool, executed: Collection[str] = ()) -> None:
        if self._source is None:
            patch = self.patch
            status, reason = self._declare()
            self.lines = {patch.name: Line(patch.name, status, reason)}

    def _declare(self) -> tuple[PatchStatus, str]:
        patch = self.patch
        if patch.name in sys.modules:
            return PatchStatus.SKIPPED, "already imported; apply before the first import of it"
        try:
            known = {"target": patch.name, "patch": patch}
            if patch.precheck is not None and not call_with_known_arguments(patch.precheck, known):
                return PatchStatus.SKIPPED, "precheck failed"
        except Exception as error:
            return PatchStatus.FAILED, f"precheck raised {described_error(error)}"
        self._source = SuppliedModule(
            patch.name, patch.factory, force=patch.force, stood_aside=self._stood_aside
        )
        finder.add_source(self._source)
        return PatchStatus.APPLIED, "supplied"

    def _stood_aside(self) -> None:
        name = self.patch.name
        self.lines = {name: Line(name, PatchStatus.SKIPPED, "the installation has this module")}

    def remove(self, changes: list[Change]) -> list[str]:
        if self._source is not None:
            finder.remove_source(self._source)
            self._source = None
        return super().remove(changes)
