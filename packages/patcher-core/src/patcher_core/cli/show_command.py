"""``patcher show NAME``: what one patch changes, why, and the source of both sides."""

from __future__ import annotations

import argparse
import difflib
import json
from typing import Any, Iterator

from ..attributes import TargetError
from ..backends import checked_backend
from ..descriptors import underlying
from ..entries import entry_of
from ..events import PatchError
from ..installation import Selection
from ..patches import AtomicPatch, ModulePatch, RegistryPatch
from ..reporting.diffs import qualified_name
from ..reporting.sources import described_side
from ..selection import CatalogEntry, find_patch
from ..source_match import SourceMatchPatch
from ..targets import locate
from . import OK
from .completion import patch_names
from .output import Output, output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    name = parser.add_argument("name", metavar="NAME", help="a patch as `patcher list` names it")
    name.completer = patch_names  # type: ignore[attr-defined]
    parser.add_argument("--backend", metavar="B", help="show the implementation for this backend")
    parser.add_argument("--source", action="store_true", help="show the source of both sides in full")
    parser.add_argument("--json", action="store_true", help="print JSON")


def carry_out(options: argparse.Namespace) -> int:
    described = describe_patch(find_patch(options.name), checked_backend(options.backend, "--backend"))
    if options.json:
        print(json.dumps(described, indent=2))
        return OK
    out = output()
    _print_facts(out, described)
    for change in described["changes"]:
        _print_change(out, change, options.source)
    return OK


def describe_patch(found: CatalogEntry, backend: str | None) -> dict[str, Any]:
    """One patch as JSON-compatible values. Its targets are imported to be shown; nothing is applied."""
    patch = found.patch
    entry = entry_of(patch)
    entry.collect(Selection(lambda member: False, backend), imports=True)
    outcomes = [part.outcome.reason for part in entry.walk() if part.outcome is not None]
    requires = getattr(patch, "requires", ())
    return {
        "name": found.name,
        "set": f"{found.patch_set.distribution.name} {found.patch_set.distribution.version}",
        "class": f"{patch.__module__}.{patch.__qualname__}",
        "description": (patch.__doc__ or "").strip(),
        **{fact: " ".join(str(getattr(patch, fact, "")).split()) for fact in ("why", "upstream", "until")},
        "backends": list(getattr(patch, "backends", ())),
        "backend": entry.backend,
        "requires": [requires] if isinstance(requires, str) else list(requires),
        "conflicts_with": [
            getattr(other, "__name__", other) for other in getattr(patch, "conflicts_with", ())
        ],
        "not_here": "; ".join(outcomes),
        "changes": [_describe_change(installation.patch) for installation in entry.tree],
    }


def _describe_change(patch: Any) -> dict[str, Any]:
    change: dict[str, Any] = {"kind": type(patch).__name__, "target": patch.name, "aliases": []}
    if isinstance(patch, AtomicPatch):
        change.update(aliases=[path for path in patch.paths if path != patch.target], sides=_sides(patch))
        change["condition"] = qualified_name(patch.runtime_check) if patch.runtime_check is not None else ""
    elif isinstance(patch, RegistryPatch):
        made_by = patch.module_cls if patch.module_cls is not None else patch.module_factory
        change["sides"] = {"replacement": described_side(made_by)}
    elif isinstance(patch, ModulePatch):
        change["sides"] = {"replacement": described_side(patch.factory)}
    elif isinstance(patch, SourceMatchPatch):
        change["known_sources"] = len(patch.forms)
        replacements = (form.replacement or form.target_wrapper for form in patch.forms.values())
        change["replacements"] = sorted(
            {qualified_name(underlying(replacement)) for replacement in replacements}
        )
    return change


def _sides(patch: AtomicPatch) -> dict[str, dict[str, str]]:
    try:
        original = described_side(underlying(locate(patch.target, create=patch.create).read()))
    except TargetError as error:
        original = {"name": "nothing", "file": "", "source": "", "reason": str(error)}
    try:
        replacement = patch.replacement if patch.given_replacement is not None else patch.target_wrapper
        described = described_side(underlying(replacement))
    except PatchError as error:
        described = {"name": str(patch.given_replacement), "file": "", "source": "", "reason": str(error)}
    return {"original": original, "replacement": described}


def _print_facts(out: Output, described: dict[str, Any]) -> None:
    out.heading(f"{described['name']} ({described['set']}, {described['class']})")
    for line in described["description"].splitlines():
        out.line(f"  {line.strip()}".rstrip())
    for fact in ("why", "upstream", "until", "backends", "backend", "requires", "conflicts_with", "not_here"):
        value = described[fact]
        text = ", ".join(map(str, value)) if isinstance(value, list) else value
        if text:
            out.line(f"  {fact.replace('_', ' ')}: {text}")


def _print_change(out: Output, change: dict[str, Any], in_full: bool) -> None:
    out.heading(f"{change['kind']} {change['target']}")
    for fact in ("aliases", "replacements"):
        for value in change.get(fact, ()):
            out.line(f"  {fact}: {value}")
    if change.get("known_sources"):
        out.line(f"  replaces functions whose source is one of {change['known_sources']} known ones")
    if change.get("condition"):
        out.line(f"  only for calls that {change['condition']} accepts; the original runs for others")
    sides = change.get("sides", {})
    for side, described in sides.items():
        out.line(f"  {side}: {described['name']}" + (f" ({described['file']})" if described["file"] else ""))
        if described["reason"]:
            out.line(f"    no source: {described['reason']}")
        elif in_full or len(sides) == 1:
            out.code(described["source"])
    diff = "" if in_full or len(sides) < 2 else "\n".join(_diff(sides["original"], sides["replacement"]))
    if diff:
        out.code(diff, "diff")


def _diff(original: dict[str, str], replacement: dict[str, str]) -> Iterator[str]:
    before, after = original["source"].splitlines(), replacement["source"].splitlines()
    if before and after:
        yield from difflib.unified_diff(before, after, original["name"], replacement["name"], lineterm="")
