"""Patch the process that is just starting."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from typing import Iterator

from ..configuration import Configuration
from ..events import PatchError, configure_patcher_logging, patcher_logger
from .command_line import Command, this_command
from .environment import CONFIGURATION, FOLDER, PARENT_ROLE

#: Exit status of a strict run in which something failed, and of one whose configuration cannot be carried out.
STRICT_FAILURE, UNUSABLE = 3, 2

PROGRAM, LAUNCHER, WORKER = "program", "launcher", "worker"


def patch_this_process() -> None:
    """Apply what ``patcher run`` was told to; a run that cannot be carried out ends here, before the program begins."""
    configuration = Configuration.from_text(os.environ[CONFIGURATION])
    try:
        _patch(configuration, this_command())
    except PatchError as error:
        _end(STRICT_FAILURE if configuration.strict else UNUSABLE, f"patcher run: {error}")
    except (ValueError, TypeError, OSError) as error:  # OSError: the folder of --profile
        _end(UNUSABLE, f"patcher run: {error}")
    except KeyboardInterrupt:
        _end_by_interrupt()


def _patch(configuration: Configuration, command: Command) -> None:
    from ..selection import configured_patcher
    from .records import ProcessRecord, RunFolder

    role = _role(command)
    folder = RunFolder(os.environ[FOLDER])
    started = time.perf_counter()
    if configuration.watch_calls:
        from ..watched_calls import watch_calls

        watch_calls(folder.calls_file)
    if configuration.strict:
        configure_patcher_logging(on_fail="exception", on_error="exception")
    lazy = configuration.lazy or role != PROGRAM
    tells = _tells(role)
    with _importing_as_the_program_will(command), _quiet_unless(tells):
        patcher = configured_patcher(configuration, controls_loop=role == PROGRAM)
        patcher.apply(lazy=lazy)
    os.environ[PARENT_ROLE] = role
    seconds = time.perf_counter() - started
    record = ProcessRecord(
        folder, configuration, patcher, role=role, lazy=lazy, seconds=seconds, summary_at_exit=lazy and tells
    )
    record.keep()


def _role(command: Command) -> str:
    if command.is_launcher:
        return LAUNCHER
    return WORKER if command.is_multiprocessing_child else PROGRAM


@contextlib.contextmanager
def _importing_as_the_program_will(command: Command) -> Iterator[None]:
    """Libraries beside the script come before installed ones; Python puts their folder on the path only later."""
    folder = command.import_folder
    if folder is not None:
        sys.path.insert(0, folder)
    try:
        yield
    finally:
        if folder is not None and folder in sys.path:
            sys.path.remove(folder)


def _tells(role: str) -> bool:
    """True for the program itself, and its ranks under a launcher; other processes tell of failures only."""
    return role == PROGRAM and os.environ.get(PARENT_ROLE) not in (PROGRAM, WORKER)


@contextlib.contextmanager
def _quiet_unless(tells: bool) -> Iterator[None]:
    level = patcher_logger.logger.level
    if not tells:
        patcher_logger.set_level("WARNING")
    try:
        yield
    finally:
        patcher_logger.set_level(level)


def _end(status: int, message: str) -> None:
    """End the process at once: an exception here would be printed by Python as an error in sitecustomize."""
    sys.stdout.flush()
    print(message, file=sys.stderr, flush=True)
    os._exit(status)


def _end_by_interrupt() -> None:
    """End as Python does on Ctrl-C, so that whoever waits for the process sees the signal."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)
