"""``patcher check``: would everything be applied here? With ``--locked``: is everything as it was recorded?"""

from __future__ import annotations

import argparse
import difflib
import json
from typing import Any, Iterator, Mapping

from .. import lock
from ..lock import TargetDrift
from . import FOUND_SOMETHING, OK, CommandError
from .configured import configuration_from
from .dry_run import dry_run, import_as_the_program
from .lock_command import DEFAULT_MODEL
from .output import Output, output
from .parser import add_configuration_arguments, add_import_argument

_STATUSES = (lock.UNCHANGED, lock.CHANGED, lock.MISSING, lock.NOT_COMPARABLE)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_configuration_arguments(parser)
    add_import_argument(parser)
    parser.add_argument("--locked", action="store_true", help="compare with what `patcher lock` recorded")
    parser.add_argument("--file", metavar="FILE", default=lock.FILE_NAME, help="lock file to compare with")
    parser.add_argument("--json", action="store_true", help="print JSON")


def carry_out(options: argparse.Namespace) -> int:
    import_as_the_program()
    configuration = configuration_from(options)
    model = _recorded_model(options) if options.locked else None
    patcher, problems = dry_run(configuration, options.modules)
    comparison = _comparison(model) if model is not None else None
    is_fine = not problems and (comparison is None or comparison["is_safe"])
    if options.json:
        described = {
            "ok": is_fine,
            "problems": [problem._asdict() for problem in problems],
            **patcher.report.to_dict(),
            "locked": comparison,
        }
        print(json.dumps(described, indent=2))
        return OK if is_fine else FOUND_SOMETHING
    out = output()
    _print_results(out, patcher.report.to_dict()["results"])
    if comparison is not None:
        _print_comparison(out, comparison)
    out.line()
    for problem in problems:
        out.line(f"problem: {problem.where}: {problem.text}")
    applied, controlled = len(patcher.report.applied), len(patcher.report.imports)
    imports = f", {controlled} import rule{'s' * (controlled > 1)} would act" if controlled else ""
    out.line(f"ok: {applied} targets would be replaced{imports}" if is_fine else "not ok: see above")
    return OK if is_fine else FOUND_SOMETHING


def _recorded_model(options: argparse.Namespace) -> Mapping[str, Any]:
    models = lock.read_lock(options.file)
    name = options.model or DEFAULT_MODEL
    if name not in models:
        known = ", ".join(models) or "none"
        raise CommandError(
            f"{options.file} has no model {name} (it has {known}); record it with `patcher lock`"
        )
    model: Mapping[str, Any] = models[name]
    return model


def _comparison(model: Mapping[str, Any]) -> dict[str, Any]:
    """What ``--locked`` found, as JSON-compatible values."""
    found = lock.drift(model)
    patches: dict[str, str] = {}
    for target in found:
        is_safe = target.status in (lock.UNCHANGED, lock.NOT_COMPARABLE)
        if not is_safe or target.patch not in patches:
            patches[target.patch] = "safe" if is_safe else target.status
    return {
        "is_safe": all(state == "safe" for state in patches.values()),
        "versions": list(_changed_versions(model)),
        "patches": patches,
        "targets": [{**target._asdict(), "diff": list(_diff(target))} for target in found],
    }


def _changed_versions(model: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    recorded = {**model["sets"], **model["libraries"]}
    present = lock.present_versions(recorded)
    for name, version in recorded.items():
        if present.get(name) != version:
            yield {"name": name, "recorded": version, "present": present.get(name, "not installed")}


def _diff(drift: TargetDrift) -> Iterator[str]:
    if drift.status == lock.CHANGED:
        names = (f"{drift.target} (recorded)", f"{drift.target} (present)")
        yield from difflib.unified_diff(drift.recorded, drift.present, *names, lineterm="")


def _print_results(out: Output, results: list[dict[str, Any]]) -> None:
    out.table(
        ("status", "target", "patch", "backend", "reason"),
        [
            (result["status"], result["name"], result["group"], result["backend"], result["reason"])
            for result in results
            if not result["quiet"]
        ],
    )


def _print_comparison(out: Output, comparison: dict[str, Any]) -> None:
    out.heading("Compared with what was recorded")
    for change in comparison["versions"]:
        out.line(f"  {change['name']}: {change['recorded']} was recorded, {change['present']} is installed")
    rows = []
    for patch, state in comparison["patches"].items():
        of_patch = [target for target in comparison["targets"] if target["patch"] == patch]
        counts = {status: sum(target["status"] == status for target in of_patch) for status in _STATUSES}
        rows.append(
            (state, patch, ", ".join(f"{count} {status}" for status, count in counts.items() if count))
        )
    out.table(("state", "patch", "targets"), rows)
    for target in comparison["targets"]:
        if target["status"] in (lock.CHANGED, lock.MISSING):
            out.heading(
                f"{target['status']}: {target['target']} ({target['patch']}) {target['reason']}".rstrip()
            )
            if target["diff"]:
                out.code("\n".join(target["diff"]), "diff")
    if comparison["versions"] and comparison["is_safe"]:
        out.line("  every target is as it was recorded; `patcher lock` records the new versions")
