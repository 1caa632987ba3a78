"""``patcher lock``: record what the patches of a model replace today."""

from __future__ import annotations

import argparse

from ..lock import FILE_NAME, describe_model, write_lock
from ..selection import chosen_sets
from . import FOUND_SOMETHING, OK
from .configured import configuration_from
from .dry_run import dry_run, import_as_the_program
from .output import output
from .parser import add_configuration_arguments, add_import_argument

#: What a model is called where the configuration has only one.
DEFAULT_MODEL = "default"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_configuration_arguments(parser)
    add_import_argument(parser)
    parser.add_argument("--file", metavar="FILE", default=FILE_NAME, help=f"lock file (default: {FILE_NAME})")


def carry_out(options: argparse.Namespace) -> int:
    import_as_the_program()
    configuration = configuration_from(options)
    out = output()
    patcher, problems = dry_run(configuration, options.modules)
    for problem in problems:
        out.line(f"problem: {problem.where}: {problem.text}")
    if patcher.report.failed or not patcher.is_applied:
        out.line(f"{options.file} was not written: what does not work is not worth recording")
        return FOUND_SOMETHING
    if not (patcher.report.applied or patcher.report.pending or patcher.report.imports):
        out.line(f"{options.file} was not written: there is nothing to record")
        return FOUND_SOMETHING
    model = describe_model(patcher, chosen_sets(configuration))
    name = options.model or DEFAULT_MODEL
    write_lock(options.file, name, model)
    out.line(f"recorded {len(model['targets'])} targets of model {name} in {options.file}")
    waiting = {result.name: result.group for result in patcher.report.pending}
    if waiting:
        out.line("not recorded, as nothing has imported what these patches look for:")
        out.table(("patch", "modules and names"), [(group, pattern) for pattern, group in waiting.items()])
        out.line("name the modules that the model uses, such as --import library.model")
    return OK
