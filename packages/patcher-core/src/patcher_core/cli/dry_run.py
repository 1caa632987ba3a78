"""Apply a configuration in this process, which then ends: nothing of the environment changes."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Iterator, NamedTuple, Sequence

from ..configuration import Configuration
from ..events import PatchError, configure_patcher_logging, configure_summary
from ..patcher import Patcher
from ..requirements import RequirementStatus, check_requirements
from ..results import ApplyReport, PatchResult, PatchStatus, described_error
from ..selection import chosen_sets, configured_patcher
from . import CommandError


class Problem(NamedTuple):
    """Something that a user must look at; ``where`` is a target, a patch, a library or an import."""

    where: str
    text: str


def import_as_the_program() -> None:
    """Let libraries in the working folder be found, as a program that stands there would find them."""
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.insert(0, os.getcwd())


def import_modules(names: Sequence[str]) -> None:
    """Import what the model imports, for patches that wait for a module and for sources that are looked for in it.

    Raises:
        CommandError: one of them cannot be imported.
    """
    for name in names:
        try:
            importlib.import_module(name)
        except Exception as error:
            raise CommandError(f"--import {name}: {described_error(error)}") from error


def dry_run(configuration: Configuration, modules: Sequence[str] = ()) -> tuple[Patcher, list[Problem]]:
    """Apply everything without a word, and import ``modules``; gives back the patcher and what went wrong."""
    configure_summary(enabled=False)
    configure_patcher_logging(level="CRITICAL", on_fail="silent", on_skip="silent", on_error="silent")
    patcher = configured_patcher(configuration, controls_loop=False)
    try:
        patcher.apply()
        import_modules(modules)
    except (ValueError, PatchError) as error:  # two patches that exclude one another
        return patcher, [Problem("configuration", str(error))]
    return patcher, [*_pin_problems(configuration), *_problems(patcher, configuration)]


def _pin_problems(configuration: Configuration) -> list[Problem]:
    problems = []
    for patch_set in chosen_sets(configuration):
        for library in patch_set.libraries:
            check = check_requirements(patch_set.pins().of_library(library), library=library)
            if check.status in (RequirementStatus.MISMATCH, RequirementStatus.UNKNOWN):
                problems.append(Problem(library, f"{check.reason} by {patch_set.distribution.name}"))
    return problems


def _problems(patcher: Patcher, configuration: Configuration) -> list[Problem]:
    report = patcher.report
    problems = [Problem(result.name, result.reason) for result in report.failed]
    problems += [Problem(result.name, result.doubt) for result in report.applied if result.doubt]
    problems += [
        Problem(outcome.name, outcome.reason) for outcome in report.imports if outcome.status != "active"
    ]
    problems += _groups_without_targets(report)
    for name in configuration.patches:
        patch = name.partition(":")[2]
        of_patch = [result for result in report if patch in (result.group, result.name)]
        statuses = {result.status for result in of_patch}
        if of_patch and statuses == {PatchStatus.SKIPPED}:
            problems.append(Problem(patch, f"was asked for and would not be applied: {of_patch[0].reason}"))
    controls_imports = any(outcome.status == "active" for outcome in report.imports)
    if not report.applied and not report.pending and not controls_imports and not problems:
        problems.append(
            Problem("configuration", "nothing would be applied; `patcher list` shows what there is")
        )
    return problems


def _groups_without_targets(report: ApplyReport) -> Iterator[Problem]:
    """Groups that were asked for their patches and found none of the targets."""
    by_group: dict[str, list[PatchResult]] = {}
    for result in report:
        if result.group:
            by_group.setdefault(result.group, []).append(result)
    for group, results in by_group.items():
        if all(_is_not_found(result) for result in results):
            yield Problem(group, f"none of its targets is here: {results[0].reason}")


def _is_not_found(result: PatchResult) -> bool:
    return result.status is PatchStatus.SKIPPED and "not found: " in result.reason
