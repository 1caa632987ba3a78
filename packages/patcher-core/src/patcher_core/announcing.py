"""Logs what a patcher did, each fact once: what was applied or not, what is doubtful, what was disabled in vain."""

from __future__ import annotations

from typing import Any, Collection, Iterable

from .events import LogAction, patcher_logger
from .installation import Installation
from .results import ApplyReport, Line, PatchResult, PatchStatus


class Announcer:
    """What one patcher has told already, from ``apply()`` to ``restore()``."""

    def __init__(self) -> None:
        self._told: set[Any] = set()

    def start_over(self) -> None:
        """Tell everything again from now on."""
        self._told.clear()

    def _is_new(self, fact: Any) -> bool:
        if fact in self._told:
            return False
        self._told.add(fact)
        return True

    def tell_installations(self, installations: Iterable[Installation]) -> None:
        """How each path of these fared, and what is doubtful about it."""
        is_applied_heard = patcher_logger.is_heard("on_apply")
        for installation in installations:
            for line in installation.all_lines():
                if is_applied_heard or line.doubt or line.status is not PatchStatus.APPLIED:
                    self._tell_installation(installation)
                    break

    def _tell_installation(self, installation: Installation) -> None:
        for result in installation.results():
            self.tell_result(result)
        for line in installation.all_lines():
            self._tell_doubt(line)

    def tell_result(self, result: PatchResult) -> None:
        """One result, with the action that is configured for its status."""
        if not self._is_new((result.name, result.group, result.status, result.reason)):
            return
        arguments = {"reason": result.reason, "package": result.module, "patch_name": result.group}
        if result.status is PatchStatus.APPLIED:
            patcher_logger.applied(result.name, **arguments)
        elif result.status is PatchStatus.FAILED:
            patcher_logger.failed(result.name, **arguments)
        elif result.status is PatchStatus.SKIPPED and not result.quiet:
            patcher_logger.skipped(result.name, **arguments)

    def _tell_doubt(self, line: Line) -> None:
        """Warn of what may go wrong although the patch was applied; strict mode raises."""
        if not line.doubt or not self._is_new((line.path, line.doubt)):
            return
        if patcher_logger.action("on_fail") in (LogAction.EXCEPTION, LogAction.EXIT):
            patcher_logger.failed(line.path, reason=line.doubt)
        patcher_logger.warning(f"{line.path}: {line.doubt}")

    def tell_unknown_disabled(self, disabled: Iterable[Any], known: Collection[str], holder: Any) -> None:
        """Names that were to be disabled and match no patch, with the nearest that would."""
        import difflib

        for name in disabled:
            if isinstance(name, str) and name not in known and self._is_new(name):
                near = difflib.get_close_matches(name, sorted(known), 1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                patcher_logger.warning(f"disable({name!r}) matches no patch of {holder}{hint}")


def tell_that_nothing_was_applied(report: ApplyReport) -> None:
    """One line for the user who would otherwise wonder; failures have been told one by one already."""
    if not report.results:
        return
    if report.failed:
        count = len(report.failed)
        patches = "1 patch" if count == 1 else f"{count} patches"
        patcher_logger.warning(f"nothing was applied: {patches} failed, as told above")
        return
    reasons = [result.reason for result in report.results]
    commonest = max(reasons, key=reasons.count)
    patcher_logger.warning(
        f"nothing was applied; the commonest reason, for {reasons.count(commonest)} of {len(reasons)} patches:"
        f" {commonest}"
    )
