"""The ``patcher`` command: use the patches without editing a file, and see what they did.

Exit status: 0 for success; 1 where a check found something; 2 for a wrong command line or configuration; 3 where
a strict run ended because a patch failed. ``patcher run`` otherwise ends with the status of the program that it runs.
"""

from __future__ import annotations

import os
import sys
from typing import Sequence

OK, FOUND_SOMETHING, USAGE_ERROR = 0, 1, 2


class CommandError(Exception):
    """The command cannot be carried out; the text says why, and what to do."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments (those of the process by default); gives back the exit status."""
    from .parser import parsed

    _open_streams()
    options = parsed(sys.argv[1:] if arguments is None else list(arguments))
    try:
        return int(options.carry_out(options))
    except (CommandError, ValueError) as error:
        print(f"patcher {options.command}: {error}", file=sys.stderr)
        return USAGE_ERROR
    except BrokenPipeError:  # the reader of our output, such as head, has seen enough
        sys.stderr.close()
        return OK


def _open_streams() -> None:
    """Where the caller closed a standard stream (``>&-``), Python has None, and what is said goes nowhere."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - for the whole process
