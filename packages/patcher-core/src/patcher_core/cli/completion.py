"""Shell completion, by argcomplete: subcommands, options, and the names of sets and patches.

``patcher completion bash`` prints what a shell must read once, at its start.
"""

from __future__ import annotations

import argparse
from typing import Any

from . import CommandError


def complete(parser: argparse.ArgumentParser) -> None:
    """Answer the shell that asked for completions, and end the process."""
    import argcomplete

    argcomplete.autocomplete(parser)


def shell_code(shell: str) -> str:
    """What the shell must read so that ``patcher`` completes.

    Raises:
        CommandError: argcomplete is not installed.
    """
    try:
        from argcomplete.shell_integration import shellcode
    except ImportError as error:
        raise CommandError("needs argcomplete; install it with: pip install 'patcher-core[cli]'") from error
    return shellcode(["patcher"], shell=shell)


def set_names(**_: Any) -> list[str]:
    """Names that ``--with`` takes."""
    from ..discovery import patch_sets

    return [
        name for patch_set in patch_sets() for name in (patch_set.distribution.name, *patch_set.libraries)
    ]


def patch_names(**_: Any) -> list[str]:
    """Names that ``--patch``, ``--disable`` and ``show`` take."""
    from ..selection import catalog

    return [entry.name for entry in catalog()]


#: What completes the value of an option, by its key.
COMPLETERS = {"with": set_names, "patch": patch_names, "disable": patch_names}
