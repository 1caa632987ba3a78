"""Projects written for either version of ``mx_driving.patcher`` run as they are, on a machine without an NPU."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from patcher_core.compat.old_names import MODULES, OF_THE_PACKAGE, OF_THE_ROOT, PREDEFINED
from patcher_core.compat.predefined import names_here
from patcher_core.discovery import patch_sets

HERE = Path(__file__).resolve().parent
PROJECTS = sorted(file.parent.name for file in HERE.glob("*/train.py"))


def names_taken(file: Path) -> set[str]:
    """What a program imports from ``mx_driving``."""
    taken = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "mx_driving":
            taken |= {alias.name for alias in node.names}
    return taken


def not_here(names: set[str]) -> dict[str, list[str]]:
    """Predefined names that the installed patch sets do not have, by distribution."""
    missing = {
        distribution: sorted(names.intersection(predefined).difference(names_here(distribution)))
        for distribution, predefined in PREDEFINED.items()
    }
    return {distribution: found for distribution, found in missing.items() if found}


@pytest.mark.parametrize("project", PROJECTS)
def test_the_project_runs_unmodified(project, tmp_path):
    files = (HERE / project).rglob("*.py")
    missing = not_here({name for file in files for name in names_taken(file)})
    if missing:
        pytest.skip(f"the installed patch sets have none of {missing}")
    (tmp_path / "sitecustomize.py").write_text("import patcher_core.compat.mx_driving\n")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, "train.py"], cwd=HERE / project, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0 and "trained" in done.stdout, done.stdout + done.stderr


def test_every_public_name_is_used():
    used = {name for file in HERE.rglob("*.py") for name in names_taken(file)}
    own = {name for names in MODULES.values() if not isinstance(names, str) for name in names}
    assert sorted(own.union(OF_THE_PACKAGE, OF_THE_ROOT) - used) == []


@pytest.mark.parametrize("distribution", PREDEFINED)
def test_every_predefined_name_is_there_and_every_patch_with_its_1_0_function(distribution):
    here = names_here(distribution)
    if not here:
        pytest.skip(f"{distribution} is not installed here")
    assert sorted(set(PREDEFINED[distribution]) - set(here)) == []
    (module,) = {one.module for one in patch_sets() if one.distribution.name == distribution}
    for group in sys.modules[module].CATALOG:
        assert here[group.__name__] is group
        if group.legacy_name:
            assert (
                here[group.legacy_name].patch_class is group
                and here[group.legacy_name].__name__ == group.legacy_name
            )
