"""The environment variables through which a run reaches its processes."""

from __future__ import annotations

import os
import sys
from typing import Mapping

from ..configuration import Configuration

CONFIGURATION = "PATCHER_RUN_CONFIGURATION"
#: Prefix and version of the Pythons that take part; ``first_on_path/sitecustomize.py`` compares it.
ENVIRONMENT = "PATCHER_RUN_ENVIRONMENT"
#: Where processes leave their records; made by the first of them, removed when that ends.
FOLDER = "PATCHER_RUN_FOLDER"
#: The role of the nearest process above that takes part.
PARENT_ROLE = "PATCHER_RUN_PARENT_ROLE"

SITECUSTOMIZE_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "first_on_path")


def run_environment(configuration: Configuration, base: Mapping[str, str]) -> dict[str, str]:
    """``base`` with what a program started in it needs to be patched, its child processes included."""
    import tempfile
    import uuid

    paths = base.get("PYTHONPATH", "").split(os.pathsep)
    others = [path for path in paths if path and path != SITECUSTOMIZE_FOLDER]
    environment = dict(base)
    environment.pop(PARENT_ROLE, None)
    environment["PYTHONPATH"] = os.pathsep.join([SITECUSTOMIZE_FOLDER, *others])
    environment[CONFIGURATION] = configuration.to_text()
    environment[ENVIRONMENT] = "{}:{}.{}".format(os.path.realpath(sys.prefix), *sys.version_info[:2])
    environment[FOLDER] = os.path.join(tempfile.gettempdir(), f"patcher-run-{uuid.uuid4().hex}")
    return environment
