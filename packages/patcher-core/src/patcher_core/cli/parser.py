"""The command line: one parser per subcommand, and the options that several of them share."""

from __future__ import annotations

import argparse
import importlib
import os
from typing import Any, Callable, Sequence

from ..configuration import NAMES, NUMBER, OPTIONS, PAIRS, SWITCH, Option
from .completion import COMPLETERS, complete

#: Subcommand, what it is for, and an example.
COMMANDS = (
    ("run", "run a program with patches", "patcher run --with mmcv -- train.py config.py"),
    ("list", "installed patch sets and their patches", "patcher list"),
    ("show", "one patch: targets, reason, source of both sides", "patcher show RMSNorm"),
    ("check", "would everything be applied here, is all as recorded?", "patcher check --locked --with mmcv"),
    ("lock", "record what the patches of a model replace", "patcher lock --with mmcv"),
    ("init", "write migrate_to_ascend/ into a model's repository", "patcher init"),
    ("completion", "what a shell reads to complete this command", 'eval "$(patcher completion bash)"'),
)

#: Options of ``run`` that say how to run, and nothing about which patches.
RUN_ONLY = ("profile", "brake-at", "strict", "lazy", "report", "watch-calls")

_EXIT_STATUS = """exit status: 0 success, 1 a check found something, 2 wrong command line or configuration,
3 a patch failed in a strict run; `patcher run` else has that of its program"""


def parsed(arguments: list[str]) -> argparse.Namespace:
    """The options; ``carry_out(options)`` of the result does what was asked. Exits on a wrong command line."""
    parser = make_parser()
    if "_ARGCOMPLETE" in os.environ:
        complete(parser)
    before, program = _split(arguments)
    options, unknown = parser.parse_known_args(before)
    if unknown:
        advice = "; what is the program's stands after --, as in `patcher run -- -m module`"
        is_run = options.command == "run" and not program
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{advice if is_run else ''}")
    if options.command is None:
        parser.print_help()
        parser.exit(2)
    if options.command == "run":
        options.program = [*options.program, *program]
    elif program:
        parser.error(f"`patcher {options.command}` runs no program; leave out what stands after --")
    return options


def make_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    examples = "\n".join(f"  {example}" for _, _, example in COMMANDS)
    parser = argparse.ArgumentParser(
        prog="patcher",
        description="Run models written for CUDA on another device, without editing a file.",
        epilog=f"examples:\n{examples}\n\n{_EXIT_STATUS}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, purpose, example in COMMANDS:
        added = subparsers.add_parser(
            name,
            help=purpose,
            description=f"{purpose[0].upper()}{purpose[1:]}.",
            epilog=f"example: {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module = importlib.import_module(f".{name}_command", __package__)
        module.add_arguments(added)
        added.set_defaults(carry_out=module.carry_out)
    return parser


def add_configuration_arguments(parser: argparse.ArgumentParser, *, run: bool = False) -> None:
    """The options that say which patches; with ``run`` also those that say how to run."""
    for option in OPTIONS:
        if run or option.key not in RUN_ONLY:
            _add_option(parser, option)
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="read options from FILE (default: patcher.toml or pyproject.toml here)",
    )
    parser.add_argument("--model", metavar="M", help="take the options of [models.M] in that file as well")


def add_import_argument(parser: argparse.ArgumentParser) -> None:
    """For patches that find their targets only in modules that are imported."""
    parser.add_argument(
        "--import",
        dest="modules",
        nargs="+",
        default=[],
        metavar="MODULE",
        help="import these as the model does",
    )


def given_values(options: argparse.Namespace) -> dict[str, Any]:
    """What was given on the command line, by field of ``Configuration``."""
    values = {option.field: getattr(options, option.field, None) for option in OPTIONS}
    return {field: value for field, value in values.items() if value is not None}


def _add_option(parser: argparse.ArgumentParser, option: Option) -> None:
    named: dict[str, Any] = {"dest": option.field, "help": option.help, "default": None}
    if option.kind == SWITCH:
        parser.add_argument(f"--{option.key}", action="store_true", **named)
        if option.key == "watch-calls":
            parser.add_argument(
                f"--no-{option.key}",
                dest=option.field,
                action="store_false",
                help="do not; costs nothing then",
            )
        return
    parse: Callable[[str], Any] = {PAIRS: _pair, NUMBER: _step}.get(option.kind, str)
    if option.kind in (NAMES, PAIRS):
        named.update(nargs="+", action="extend")
    added = parser.add_argument(f"--{option.key}", metavar=option.metavar, type=parse, **named)
    if option.key in COMPLETERS:
        added.completer = COMPLETERS[option.key]  # type: ignore[attr-defined]


def _pair(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not (old and equals and new):
        raise argparse.ArgumentTypeError(f"{text!r} is not OLD=NEW, such as fast_ops=slow_ops")
    return old, new


def _step(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """What stands before the first ``--``, and the program after it."""
    if "--" not in arguments:
        return list(arguments), []
    index = list(arguments).index("--")
    return list(arguments[:index]), list(arguments[index + 1 :])
