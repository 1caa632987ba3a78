"""``patcher list``: the installed patch sets, what they were verified against, and their patches."""

from __future__ import annotations

import argparse
import json
from typing import Any

from ..discovery import PatchSet, PatchSetContents, patch_sets
from ..library_version import get_version
from ..requirements import RequirementStatus, check_requirements
from ..source_version import is_importable
from . import OK
from .output import Output, output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def carry_out(options: argparse.Namespace) -> int:
    described = [describe_set(patch_set) for patch_set in patch_sets()]
    if options.json:
        print(json.dumps(described, indent=2))
        return OK
    out = output()
    if not described:
        out.line("no patch set is installed; install one, such as: pip install patches-mmcv")
    for facts in described:
        _print_set(out, facts)
    return OK


def describe_set(patch_set: PatchSet) -> dict[str, Any]:
    """One patch set as JSON-compatible values; its module is imported, the libraries are not."""
    contents = patch_set.load()
    return {
        "distribution": patch_set.distribution.name,
        "version": patch_set.distribution.version,
        "module": patch_set.module,
        "error": "" if contents is not None else f"{type(patch_set.error).__name__}: {patch_set.error}",
        "libraries": [_describe_library(patch_set, library) for library in patch_set.libraries],
        "patches": []
        if contents is None
        else [_describe_patch(patch, contents) for patch in contents.catalog],
    }


def _describe_library(patch_set: PatchSet, library: str) -> dict[str, Any]:
    pins = patch_set.pins().of_library(library)
    check = check_requirements(pins, library=library)
    is_absent = check.status is RequirementStatus.ABSENT or not (pins or is_importable(library))
    return {
        "library": library,
        "found": check.version or get_version(library),
        "verified_for": list(pins),
        "status": (RequirementStatus.ABSENT if is_absent else check.status).value,
    }


def _describe_patch(patch: Any, contents: PatchSetContents) -> dict[str, Any]:
    return {
        "name": str(patch.name),
        "default": patch in contents.default,
        "all": patch in contents.all,
        "backends": list(getattr(patch, "backends", ())),
        "why": " ".join(str(getattr(patch, "why", "")).split()),
    }


def _print_set(out: Output, described: dict[str, Any]) -> None:
    out.heading(f"{described['distribution']} {described['version']}")
    for library in described["libraries"]:
        found = library["found"]
        state = (
            "not installed" if library["status"] == "absent" else f"found {found or 'in an unknown version'}"
        )
        pins = " or ".join(library["verified_for"]) or "any version"
        wrong = " (another version is installed: its patches are skipped)" * (library["status"] == "mismatch")
        out.line(f"  {library['library']}: {state}, verified for {pins}{wrong}")
    if described["error"]:
        out.line(f"  failed to load: {described['error']}")
        return
    out.table(
        ("patch", "applied by", "backends", "why"),
        [
            (patch["name"], _applied_by(patch, described), ", ".join(patch["backends"]), patch["why"])
            for patch in described["patches"]
        ],
    )


def _applied_by(patch: dict[str, Any], described: dict[str, Any]) -> str:
    """What makes ``patcher run`` take the patch."""
    if patch["default"]:
        return "default"
    return f"--with {described['distribution']}" if patch["all"] else "--patch"
