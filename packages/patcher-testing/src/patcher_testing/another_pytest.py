"""How a pytest of the same kind as the one that runs is started."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def another_pytest(config: pytest.Config) -> list[str]:
    """pytest with the options of this run that change what a test does; not those that choose tests or write
    files.
    """
    option = config.option
    command = [
        sys.executable,
        "-m",
        "pytest",
        f"--rootdir={config.rootpath}",
        f"--import-mode={option.importmode}",
    ]
    if config.inipath:
        command += ["-c", str(config.inipath)]
    for flag, values in (("-p", option.plugins), ("-W", option.pythonwarnings), ("-o", option.override_ini)):
        for value in values or ():
            command += [flag, value]
    return command
