"""What a Python process was started to run, read off its command line before the program begins."""

from __future__ import annotations

import os
import sys
from typing import NamedTuple, Sequence

SCRIPT, MODULE, CODE, INPUT = "script", "module", "code", "standard input"

#: Programs that start the processes of a distributed run; in them nothing of the model happens.
LAUNCHERS = ("torchrun", "accelerate", "deepspeed", "torch.distributed.run", "torch.distributed.launch")

#: Options of the interpreter that take a value, also as an argument of its own.
_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")


class Command(NamedTuple):
    """``kind`` of what runs, and its name: a path, a module, or code."""

    kind: str
    value: str

    @property
    def is_launcher(self) -> bool:
        name = os.path.basename(self.value) if self.kind == SCRIPT else self.value
        return self.kind in (SCRIPT, MODULE) and name in LAUNCHERS

    @property
    def is_multiprocessing_child(self) -> bool:
        """True for the processes that :mod:`multiprocessing` starts afresh: spawn, forkserver, resource tracker."""
        return self.kind == CODE and self.value.startswith("from multiprocessing.")

    @property
    def import_folder(self) -> str | None:
        """What Python puts in front of ``sys.path`` when the program begins; None for nothing."""
        if sys.flags.isolated or getattr(sys.flags, "safe_path", False):
            return None
        if self.kind == MODULE:
            return os.getcwd()
        if self.kind != SCRIPT:
            return ""
        script = os.path.realpath(self.value)
        return script if _is_importable_by_itself(script) else os.path.dirname(script)


def this_command() -> Command:
    """What this process was started to run."""
    return command_of(_arguments()[1:])


def command_of(arguments: Sequence[str]) -> Command:
    """What Python runs when it is given these arguments."""
    waiting = list(arguments)
    while waiting:
        argument = waiting.pop(0)
        if argument in ("-c", "-m"):
            return Command(CODE if argument == "-c" else MODULE, waiting[0] if waiting else "")
        if argument in _WITH_VALUE:
            del waiting[:1]
        elif argument == "-":
            break
        elif not argument.startswith("-"):
            return Command(SCRIPT, argument)
        elif not argument.startswith("--") and not argument.startswith(_WITH_VALUE):
            # Single letters may stand together, the last of them with its value: -uc CODE, -Ebmmodule.
            for index, letter in enumerate(argument[1:], 1):
                if letter in "cm":
                    value = argument[index + 1 :] or (waiting[0] if waiting else "")
                    return Command(CODE if letter == "c" else MODULE, value)
    return Command(INPUT, "")


def _arguments() -> list[str]:
    """The command line with the interpreter's own options, which ``sys.argv`` lacks."""
    original = getattr(sys, "orig_argv", None)  # CPython 3.10
    if original:
        return list(original)
    try:
        with open("/proc/self/cmdline", "rb") as stream:
            return [os.fsdecode(argument) for argument in stream.read().split(b"\0")[:-1]]
    except OSError:
        return [sys.executable, *sys.argv]


def _is_importable_by_itself(path: str) -> bool:
    """True for a folder or archive with a ``__main__``: it stands on ``sys.path`` itself."""
    import zipfile

    return os.path.isdir(path) or (not path.endswith(".py") and zipfile.is_zipfile(path))
