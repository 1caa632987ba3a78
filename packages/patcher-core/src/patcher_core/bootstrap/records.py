"""What each process of a run leaves behind, and what the first of them makes of it at its end.

Every process that starts writes one file into the run's folder: after its patches are in, and again when it ends. The
first process makes the folder, and at its end lists what was never called, writes the report and removes the folder.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import sys
import time
from typing import Any

from ..configuration import Configuration
from ..events import patcher_logger
from ..patcher import Patcher


class RunFolder:
    """The folder that the processes of one run share; made by the first of them."""

    def __init__(self, path: str) -> None:
        self.path = path
        #: where targets that were called are noted
        self.calls_file = os.path.join(path, "called")
        try:
            os.mkdir(path)
            self._maker = os.getpid()
        except FileExistsError:
            self._maker = 0

    @property
    def is_made_here(self) -> bool:
        """True in the process that made it, not in its forks."""
        return os.getpid() == self._maker

    def write_record(self, record: dict[str, Any]) -> None:
        """Keep the record of a process in the place of an earlier one."""
        path = os.path.join(self.path, f"{record['pid']}.json")
        with contextlib.suppress(OSError), open(path, "w", encoding="utf-8") as stream:
            json.dump(record, stream, default=str)

    def records(self) -> list[dict[str, Any]]:
        """The records of all processes, in the order in which they started."""
        found = []
        for name in os.listdir(self.path):
            if name.endswith(".json"):
                path = os.path.join(self.path, name)
                # Of a process that is writing, or was killed while it did, there may be half a record.
                with contextlib.suppress(OSError, ValueError), open(path, encoding="utf-8") as stream:
                    found.append(json.load(stream))
        return sorted(found, key=lambda record: record["started"])

    def called_targets(self) -> set[str]:
        """The targets whose replacement some process called."""
        with contextlib.suppress(OSError), open(self.calls_file, encoding="utf-8") as stream:
            return set(stream.read().splitlines())
        return set()

    def remove(self) -> None:
        """Remove it with everything in it."""
        import shutil

        shutil.rmtree(self.path, ignore_errors=True)


class ProcessRecord:
    """The record of this process.

    Args:
        role: what the process is there for.
        lazy: whether nothing was imported for the patches' sake.
        seconds: what applying the patches took, imports of libraries included.
        summary_at_exit: whether to log the summary when the process ends: a lazy run has nothing to say before.
    """

    def __init__(
        self,
        folder: RunFolder,
        configuration: Configuration,
        patcher: Patcher,
        *,
        role: str,
        lazy: bool,
        seconds: float,
        summary_at_exit: bool,
    ) -> None:
        self._folder = folder
        self._configuration = configuration
        self._patcher = patcher
        self._summary_at_exit = summary_at_exit
        self._started = time.time()
        self._facts = {
            "pid": os.getpid(),
            "parent": os.getppid(),
            "started": self._started,
            "role": role,
            "rank": patcher_logger.rank,
            "lazy": lazy,
            "apply_seconds": seconds,
            "python": "{}.{}.{}".format(*sys.version_info[:3]),
        }

    def keep(self) -> None:
        """Write it now, and again when the process ends."""
        self._folder.write_record(self.to_dict())
        atexit.register(self._at_exit)

    def to_dict(self) -> dict[str, Any]:
        """As JSON-compatible values."""
        from ..watched_calls import watched_targets

        record = {
            **self._facts,
            "command": sys.argv,
            "seconds": time.time() - self._started,
            "watched": sorted(watched_targets()),
            **self._patcher.report.to_dict(),
        }
        if self._configuration.report and self._facts["role"] == "program" and self._facts["rank"] == 0:
            from ..reporting.sources import patched_sources

            record["sources"] = patched_sources()
        return record

    def _at_exit(self) -> None:
        if os.getpid() != self._facts["pid"]:  # a fork that ends like a program of its own
            return
        self._folder.write_record(self.to_dict())
        if self._summary_at_exit:
            patcher_logger.flush_summary(self._patcher.report)
        if self._folder.is_made_here:
            from .ending import end_run

            end_run(self._configuration, self._folder)
            self._folder.remove()
        _keep_unhandled_interrupt()


def _keep_unhandled_interrupt() -> None:
    """Let a process that Ctrl-C ended still end by the signal.

    CPython sees to that itself, and forgets it where text was evaluated since, as by every ``namedtuple``.
    """
    if getattr(sys, "last_type", None) is KeyboardInterrupt:
        with contextlib.suppress(KeyboardInterrupt):
            exec("raise KeyboardInterrupt")
