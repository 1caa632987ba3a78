"""Writes docs/patches.md: every patch of every patch set, from the classes themselves.

python docs/patch_catalogue.py            # needs the patch sets installed, not the libraries they patch
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, Iterator

import tomllib
from packaging.requirements import Requirement

PAGE = Path(__file__).resolve().parent / "patches.md"
#: distribution: module
PATCH_SETS = {
    "patches-torch": "torch_patches",
    "patches-mmcv": "mmcv_patches",
    "patches-mmdet": "mmdet_patches",
    "patches-transformers": "transformers_patches",
    "patches-diffusers": "diffusers_patches",
}
HEAD = """# Patches

Every patch of every set, with the reason it exists. "Default" is what `default_patcher` enables; the others are
enabled by name: `Patcher().add(mmcv_patches.Voxelization)`. Names in `code` are what `disable()` and the report use.

This page is written by `python docs/patch_catalogue.py`; do not edit it.
"""


def pins_of(distribution: str) -> list[str]:
    """The upstream versions that a distribution admits. An editable install keeps the metadata of an earlier day."""
    file = PAGE.parent.parent / "packages" / distribution / "pyproject.toml"
    extras = tomllib.loads(file.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    named = (Requirement(text) for extra in extras if "upstream" in extra for text in extras[extra])
    return [f"{requirement.name} {requirement.specifier}" for requirement in named]


def lines_of(patch: Any, patch_set: Any) -> Iterator[str]:
    """The entry of one patch."""
    yield f"### {patch.__name__}\n"
    yield f"{_sentence(patch.why)}\n"
    default = "yes" if patch in patch_set.DEFAULT else "no"
    facts = [f"`{patch.name}`", f"default: {default}"]
    if patch.backends:
        facts.append(f"implementations: {', '.join(patch.backends)}")
    if patch.requires:
        wanted = (patch.requires,) if isinstance(patch.requires, str) else patch.requires
        facts.append(f"only with {' or '.join(wanted)}")
    if patch.legacy_name:
        facts.append(f"1.0 name: `{patch.legacy_name}`")
    if patch.until:
        facts.append(f"unnecessary from {patch.until}")
    yield " · ".join(facts) + "\n"
    if patch.upstream:
        yield f"Upstream: {patch.upstream}\n"


def _sentence(text: str) -> str:
    text = text[:1].upper() + text[1:]
    return text if text.endswith(".") else f"{text}."


def page() -> str:
    """The Markdown of the whole page."""
    text = [HEAD]
    for distribution, module in PATCH_SETS.items():
        patch_set = importlib.import_module(module)
        text.append(f"## {distribution}\n")
        text.append(f"Verified for {', '.join(pins_of(distribution))}.\n")
        for patch in patch_set.CATALOG:
            if hasattr(patch, "why"):
                text += lines_of(patch, patch_set)
    return "\n".join(text)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
