"""The end of a run: what was never called, and the report."""

from __future__ import annotations

from ..configuration import Configuration
from ..events import patcher_logger
from ..reporting.never_called import never_called, render_never_called
from ..reporting.run_report import RunReport
from .records import RunFolder


def end_run(configuration: Configuration, folder: RunFolder) -> None:
    """Say what was never called, and write the report if one was asked for."""
    report = RunReport(folder.records(), folder.called_targets(), configuration)
    idle = never_called(report)
    if idle:
        patcher_logger.info(render_never_called(idle))
    if configuration.report:
        try:
            report.write(configuration.report)
        except Exception as error:
            patcher_logger.warning(f"no report was written to {configuration.report}: {error}")
