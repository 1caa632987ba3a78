"""Patch sets, and what tests them, use the core by its public names alone: what every version of it keeps."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Iterator

import pytest

from nox_support.environments import ROOT

CORE = "patcher_core"
USERS = sorted(
    marker.parent for marker in ROOT.glob("packages/*/src/*/py.typed") if marker.parent.name != CORE
)


def text_of(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def public_names() -> set[str]:
    """What `patcher_core` lists in `__all__`, and what the reference documents in its modules."""
    tree = ast.parse(text_of("packages/patcher-core/src/patcher_core/__init__.py"))
    (listed,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )
    documented = re.findall(r"^::: (\S+)$", text_of("docs/reference.md"), re.MULTILINE)
    return {CORE, *(f"{CORE}.{name}" for name in listed), *documented}


def names_taken(source: str) -> Iterator[str]:
    """Dotted names of everything that a module imports from the core."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            taken = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            taken = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (name for name in taken if name.partition(".")[0] == CORE)


@pytest.mark.parametrize("package", USERS, ids=lambda path: path.name)
def test_only_public_names_of_the_core_are_imported(package: Path) -> None:
    used = {
        name: file.relative_to(ROOT).as_posix()
        for file in sorted(package.rglob("*.py"))
        for name in names_taken(file.read_text(encoding="utf-8"))
    }
    assert used, f"{package.name} imports nothing from the core: is this the right folder?"
    internal = {name: file for name, file in used.items() if name not in public_names()}
    assert not internal, (
        f"internal to the core: {internal}. Use a name of patcher_core.__all__ or of docs/reference.md, or give it one"
    )


@pytest.mark.parametrize(
    "source",
    [
        "from patcher_core.journal import journal",
        "from patcher_core import journal",
        "import patcher_core.journal",
        "def late():\n    from patcher_core.imports.finder import finder",
        "from patcher_core.imports import finder",
    ],
)
def test_an_internal_name_is_found_however_it_is_imported(source: str) -> None:
    assert not set(names_taken(source)) <= public_names()


def test_a_public_name_is_none_of_them() -> None:
    source = "from patcher_core import AtomicPatch\nfrom patcher_core.training import StepController"
    assert set(names_taken(source)) <= public_names()
