"""What the patcher says, and how loudly: the logger, the action per event, the rank filter, ``PatchError``.

Four independent controls:

* the level of the logger (:func:`set_patcher_log_level`),
* the action taken per kind of event (:func:`configure_patcher_logging`),
* the summary after ``apply()`` (:meth:`PatcherLogger.configure_summary`),
* the rank: information is logged by rank 0 only, failures by every rank.

The root logger is never touched. Records propagate to whatever handlers the program configured; where it
configured none, they are written to the standard error stream. A program that does not use ``logging`` loads it only
when there is something to say.
"""

from __future__ import annotations

import enum
import sys
from typing import TYPE_CHECKING, Callable, Mapping

if TYPE_CHECKING:
    import logging

    from .results import ApplyReport

LOGGER_NAME = "patcher_core"

#: The levels of ``logging``, known without importing it.
DEBUG, INFO, WARNING, ERROR = 10, 20, 30, 40


class PatchError(RuntimeError):
    """A patch failed and the caller asked for failures to raise (strict mode)."""


class LogAction(str, enum.Enum):
    """What happens on an event. ``exception`` raises :class:`PatchError`, ``exit`` ends the process."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    EXCEPTION = "exception"
    EXIT = "exit"
    SILENT = "silent"


_LEVEL_OF_ACTION = {
    LogAction.DEBUG: DEBUG,
    LogAction.INFO: INFO,
    LogAction.WARNING: WARNING,
    LogAction.ERROR: ERROR,
    LogAction.EXCEPTION: ERROR,
    LogAction.EXIT: ERROR,
}

_DEFAULT_ACTIONS = {
    "on_apply": LogAction.INFO,
    "on_skip": LogAction.INFO,
    "on_fail": LogAction.WARNING,
    "on_error": LogAction.WARNING,
}

_EVENT_OF_SECTION = (("applied", "on_apply"), ("skipped", "on_skip"), ("failed", "on_fail"))


def _level_number(level: int | str) -> int:
    from .log_output import level_number

    return level_number(level)


def _action(option: str, value: str | LogAction) -> LogAction:
    try:
        return LogAction(value.lower() if isinstance(value, str) else value)
    except ValueError:
        known = ", ".join(action.value for action in LogAction)
        raise ValueError(f"{option}={value!r} is not an action; use one of {known}") from None


class SummaryOptions:
    """Whether, at which level and with which sections the summary is logged."""

    def __init__(self) -> None:
        self.enabled = True
        self.level = INFO
        #: whether a section is shown, whatever the action of its event; those not chosen are missing
        self.sections: dict[str, bool] = {}

    def hidden_sections(self, actions: Mapping[str, LogAction]) -> set[str]:
        """The sections left out: those switched off, and those of a silent event that nobody asked for."""
        shown = {section: actions[event] is not LogAction.SILENT for section, event in _EVENT_OF_SECTION}
        shown.update(self.sections)
        return {section for section, is_shown in shown.items() if not is_shown}


class PatcherLogger:
    """The patcher's own logger: events with configurable actions, and the summary after ``apply()``."""

    def __init__(self, name: str = LOGGER_NAME) -> None:
        self._name = name
        self._logger: logging.Logger | None = None
        if "logging" in sys.modules:
            # Ready for whoever changes its level for a while, and then puts that back.
            self._logger = self.logger
        self._actions = dict(_DEFAULT_ACTIONS)
        self._rank: int | None = None
        self._told: list[tuple[str, str, str, str, str]] = []  # since the last summary
        self.summary = SummaryOptions()

    @property
    def logger(self) -> logging.Logger:
        """What the patcher logs to."""
        if self._logger is None:
            from .log_output import prepared_logger

            self._logger = prepared_logger(self._name, INFO)
        return self._logger

    # ------------------------------------------------------------------ configuration
    def log_as(self, name: str) -> None:
        """Log to the logger ``name`` from now on, at the level that the program gave that logger, else at this one."""
        from .log_output import prepared_logger

        self._logger = prepared_logger(name, self.logger.level)

    def configure(
        self,
        *,
        level: int | str | None = None,
        on_apply: str | LogAction | None = None,
        on_skip: str | LogAction | None = None,
        on_fail: str | LogAction | None = None,
        on_error: str | LogAction | None = None,
        rank: int | None = None,
    ) -> None:
        """Set the level, the action per event and the rank; what is None stays as it is.

        Raises:
            ValueError, TypeError: naming the argument; nothing is changed then.
        """
        given = {"on_apply": on_apply, "on_skip": on_skip, "on_fail": on_fail, "on_error": on_error}
        actions = {option: _action(option, value) for option, value in given.items() if value is not None}
        number = None if level is None else _level_number(level)
        if rank is not None:
            self.set_rank(rank)
        if number is not None:
            self.logger.setLevel(number)
        self._actions.update(actions)

    def configure_summary(
        self,
        enabled: bool | None = None,
        level: int | str | None = None,
        *,
        show_applied: bool | None = None,
        show_skipped: bool | None = None,
        show_failed: bool | None = None,
        show_imports: bool | None = None,
    ) -> None:
        """Choose whether, at which level and with which sections the summary is logged; None keeps a value.

        A section whose event is ``silent`` is left out unless it is asked for here with True.
        """
        number = None if level is None else _level_number(level)
        options = self.summary
        if enabled is not None:
            options.enabled = bool(enabled)
        if number is not None:
            options.level = number
        for section, value in (
            ("applied", show_applied),
            ("skipped", show_skipped),
            ("failed", show_failed),
            ("imports", show_imports),
        ):
            if value is not None:
                options.sections[section] = bool(value)

    def set_level(self, level: int | str) -> None:
        """Set the level of the patcher's logger."""
        self.logger.setLevel(_level_number(level))

    def action(self, event: str) -> LogAction:
        """The action configured for ``on_apply``, ``on_skip``, ``on_fail`` or ``on_error``."""
        return self._actions[event]

    # ------------------------------------------------------------------ rank
    @property
    def rank(self) -> int:
        """The rank set by :meth:`set_rank`, else the one the launcher put into the environment, else 0."""
        if self._rank is not None:
            return self._rank
        from .process_rank import rank_from_environment

        return rank_from_environment()

    def set_rank(self, rank: int) -> None:
        """Fix the rank of this process; TypeError or ValueError unless it is an integer >= 0."""
        if isinstance(rank, bool) or not isinstance(rank, int):
            raise TypeError(f"rank must be an int, got {rank!r}")
        if rank < 0:
            raise ValueError(f"rank must be >= 0, got {rank}")
        self._rank = rank

    def set_rank_from_env(self) -> None:
        """Take the rank from the environment again (torchrun, Open MPI, PMI, Slurm)."""
        self._rank = None

    @property
    def is_main_process(self) -> bool:
        """True where information is logged: rank 0, and not a worker that rank 0 started."""
        from .process_rank import is_worker_process

        return self.rank == 0 and not is_worker_process()

    # ------------------------------------------------------------------ saying things
    def _is_enabled_for(self, level: int) -> bool:
        if self._logger is None and "logging" not in sys.modules:
            return level >= INFO  # nobody can have chosen another level yet
        return self.logger.isEnabledFor(level)

    def log(self, level: int, message: str) -> None:
        """Log ``message``; below WARNING only in the main process."""
        if self._is_enabled_for(level) and (level >= WARNING or self.is_main_process):
            self.logger.log(level, "%s", message)

    def debug(self, message: str) -> None:
        self.log(DEBUG, message)

    def info(self, message: str) -> None:
        self.log(INFO, message)

    def warning(self, message: str) -> None:
        self.log(WARNING, message)

    def error(self, message: str) -> None:
        """Report a mishap that belongs to no single patch, with the action of ``on_error``."""
        self._act("on_error", message)

    def applied(self, target: str, *, reason: str = "", package: str = "", patch_name: str = "") -> None:
        """Report a target as replaced, with the action of ``on_apply``."""
        self._event("on_apply", "applied", target, reason, package, patch_name)

    def skipped(self, target: str, *, reason: str = "", package: str = "", patch_name: str = "") -> None:
        """Report a target as left alone, with the action of ``on_skip``."""
        self._event("on_skip", "skipped", target, reason, package, patch_name)

    def failed(self, target: str, *, reason: str = "", package: str = "", patch_name: str = "") -> None:
        """Report a target whose patch failed, with the action of ``on_fail``."""
        self._event("on_fail", "failed", target, reason, package, patch_name)

    def is_heard(self, event: str) -> bool:
        """False where a single event of this kind is neither logged nor acted on: there is no need to report it."""
        action = self._actions[event]
        if action in (LogAction.SILENT, LogAction.EXCEPTION, LogAction.EXIT):
            return action is not LogAction.SILENT
        in_summary_only = action is LogAction.INFO and self.summary.enabled
        return self._is_enabled_for(DEBUG if in_summary_only else _LEVEL_OF_ACTION[action])

    def _event(self, event: str, verb: str, target: str, reason: str, package: str, patch_name: str) -> None:
        self._told.append((verb, target, package, reason, patch_name))
        where = " ".join(part for part in (f"[{package}]" if package else "", patch_name) if part)
        message = f"{verb} {target}" + (f" ({where})" if where else "") + (f": {reason}" if reason else "")
        # Information that the summary shows anyway is not printed a second time.
        if self._actions[event] is LogAction.INFO and self.summary.enabled:
            self.log(DEBUG, message)
        else:
            self._act(event, message)

    def _act(self, event: str, message: str) -> None:
        action = self._actions[event]
        if action is LogAction.SILENT:
            return
        if action is LogAction.EXCEPTION:
            raise PatchError(message)
        self.log(_LEVEL_OF_ACTION[action], message)
        if action is LogAction.EXIT:
            sys.exit(1)

    def flush_summary(self, report: ApplyReport | Callable[[], ApplyReport] | None = None) -> None:
        """Log the summary of ``report`` as one record, unless it is switched off or would be empty.

        A function is called for the report only where the summary is really logged. Without a report the summary is
        of what :meth:`applied`, :meth:`skipped` and :meth:`failed` were told since the last one.
        """
        options = self.summary
        told, self._told = self._told, []
        if not options.enabled or not self._is_enabled_for(options.level):
            return
        if report is None:
            report = _report_of(told)
        elif callable(report):
            report = report()
        if not (report.imports or report.notes or any(not result.quiet for result in report)):
            return
        from .reporting.text import render_summary

        text = render_summary(report, options.hidden_sections(self._actions))
        if text:
            self.log(options.level, text)


def _report_of(told: list[tuple[str, str, str, str, str]]) -> ApplyReport:
    from .results import ApplyReport, PatchResult, PatchStatus

    return ApplyReport(
        tuple(
            PatchResult(PatchStatus(verb), target, package, reason, patch_name)
            for verb, target, package, reason, patch_name in told
        )
    )


#: The one logger of the process.
patcher_logger = PatcherLogger()


def configure_patcher_logging(
    *,
    level: int | str | None = None,
    on_apply: str | LogAction | None = None,
    on_skip: str | LogAction | None = None,
    on_fail: str | LogAction | None = None,
    on_error: str | LogAction | None = None,
    rank: int | None = None,
) -> None:
    """Configure :data:`patcher_logger`; see :meth:`PatcherLogger.configure`.

    ``on_fail="exception"`` and ``on_error="exception"`` make ``apply()`` strict: it raises
    :class:`PatchError` after undoing its own writes.
    """
    patcher_logger.configure(
        level=level, on_apply=on_apply, on_skip=on_skip, on_fail=on_fail, on_error=on_error, rank=rank
    )


def set_patcher_log_level(level: int | str) -> None:
    """Set the level of the patcher's logger, by name or number."""
    patcher_logger.set_level(level)


def configure_summary(
    enabled: bool | None = None,
    level: int | str | None = None,
    *,
    show_applied: bool | None = None,
    show_skipped: bool | None = None,
    show_failed: bool | None = None,
    show_imports: bool | None = None,
) -> None:
    """Configure the summary after ``apply()``; see :meth:`PatcherLogger.configure_summary`."""
    patcher_logger.configure_summary(
        enabled,
        level,
        show_applied=show_applied,
        show_skipped=show_skipped,
        show_failed=show_failed,
        show_imports=show_imports,
    )
