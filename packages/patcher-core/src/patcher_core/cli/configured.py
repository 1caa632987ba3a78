"""From the command line and the configuration file to one configuration."""

from __future__ import annotations

import argparse
import os

from ..backends import checked_backend
from ..configuration import Configuration
from ..configuration_file import find_configuration_file, read_configuration_file
from ..selection import conflict, resolved
from . import CommandError
from .parser import given_values


def configuration_from(options: argparse.Namespace) -> Configuration:
    """What the command line says, over what the configuration file says; every name in it is found.

    Raises:
        CommandError, ValueError: something is not there, or cannot be.
    """
    path = options.config or find_configuration_file(os.getcwd())
    if path is None and options.model:
        raise CommandError(
            f"--model {options.model}: there is no patcher.toml here; name one with --config FILE"
        )
    values = read_configuration_file(path, options.model) if path is not None else {}
    configuration = resolved(Configuration.from_values({**values, **given_values(options)}))
    checked_backend(configuration.backend or None, "backend")
    if configuration.sets or configuration.patches:
        excluded = conflict(configuration)
        if excluded:
            raise CommandError(excluded)
    return configuration
