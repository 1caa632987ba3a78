"""``patcher completion SHELL``: what the shell must read so that ``patcher`` completes."""

from __future__ import annotations

import argparse

from . import OK
from .completion import shell_code

SHELLS = ("bash", "zsh", "fish")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="the shell")


def carry_out(options: argparse.Namespace) -> int:
    print(shell_code(options.shell))
    return OK
