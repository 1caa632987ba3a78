"""``patcher run``: become the program, in an environment in which every Python patches itself."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import sysconfig
from typing import Sequence

from . import CommandError
from .parser import add_configuration_arguments

_PYTHON = re.compile(r"python[\d.]*")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "patcher run [OPTIONS] -- script.py ARGS | -m module ARGS | torchrun ARGS"
    add_configuration_arguments(parser, run=True)
    parser.add_argument("program", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def carry_out(options: argparse.Namespace) -> int:
    """Does not come back where the program could be started."""
    from ..bootstrap.environment import run_environment
    from .configured import configuration_from

    configuration = configuration_from(options)
    if configuration.report:
        configuration = configuration._replace(report=_checked_report(configuration.report))
    command = executable_command(options.program)
    environment = run_environment(configuration, os.environ)
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execve(command[0], command, environment)
    except OSError as error:
        raise CommandError(f"{command[0]} cannot be run: {error.strerror}") from error


def executable_command(program: Sequence[str]) -> list[str]:
    """The program with the path of what is to be executed in front: this Python, or a command.

    Raises:
        CommandError: nothing of that name is here.
    """
    if not program:
        raise CommandError("names no program; write it after --, as in `patcher run -- train.py config.py`")
    name = program[0]
    if name == "-m" or name == "-c":
        if len(program) < 2:
            raise CommandError(f"{name} needs a value, as in `patcher run -- -m package.module`")
        return [sys.executable, *program]
    if os.path.exists(name) and not (os.path.isfile(name) and _is_other_executable(name)):
        return [sys.executable, *program]
    found = shutil.which(name, path=sysconfig.get_path("scripts")) or shutil.which(name)
    if found is None:
        raise CommandError(
            f"{name} is neither a file here nor a command on PATH; a module is run with -m, as in "
            "`patcher run -- -m package.module`"
        )
    interpreter = _interpreter_of(found)
    if interpreter and not _is_of_this_environment(interpreter):
        raise CommandError(
            f"{found} runs with {interpreter}, the Python of another environment, which would not be patched; "
            "install patcher-core and the patch sets there"
        )
    return [found, *program[1:]]


def _interpreter_of(path: str) -> str:
    """The Python that executes a command: itself, or the one in its first line; "" for other programs."""
    if _PYTHON.fullmatch(os.path.basename(path)):
        return path
    words = _first_line(path)[2:].decode(errors="replace").split()
    if words and os.path.basename(words[0]) == "env":
        words = [found for word in words[1:] for found in [shutil.which(word)] if found]
    return words[0] if words and _PYTHON.fullmatch(os.path.basename(words[0])) else ""


def _is_of_this_environment(interpreter: str) -> bool:
    prefix = os.path.dirname(os.path.dirname(os.path.abspath(interpreter)))
    return os.path.realpath(prefix) in map(os.path.realpath, (sys.prefix, sys.exec_prefix))


def _first_line(path: str) -> bytes:
    """The first line of a script that says what executes it; empty for anything else."""
    with open(path, "rb") as stream:
        line = stream.readline(500)
    return line if line.startswith(b"#!") else b""


def _is_other_executable(path: str) -> bool:
    """True for what the system runs by itself and is no Python source: a shell script, a binary."""
    if not os.access(path, os.X_OK) or path.endswith((".py", ".pyz")):
        return False
    with open(path, "rb") as stream:
        is_binary = stream.read(4) == b"\x7fELF"
    first_line = _first_line(path)
    return is_binary or (bool(first_line) and b"python" not in first_line)


def _checked_report(path: str) -> str:
    """The absolute path of a report that can be written.

    Raises:
        CommandError: it cannot.
    """
    if not path.endswith((".html", ".json")):
        raise CommandError(f"--report {path}: the name must end with .html or .json")
    folder = os.path.dirname(os.path.abspath(path))
    if not os.access(folder, os.W_OK):
        raise CommandError(f"--report {path}: {folder} is no folder that can be written to; make it first")
    if path.endswith(".html"):
        from ..reporting.html import require_jinja

        require_jinja()
    return os.path.abspath(path)
