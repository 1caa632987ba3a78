"""Programs written for ``mx_driving.patcher``, run unmodified in fresh processes with the alias in effect."""

from __future__ import annotations

import subprocess
from typing import Callable, Mapping

import pytest

#: Read by every Python at its start, so that the program itself stays as it was written.
ALIAS = {"sitecustomize.py": "import patcher_core.compat.mx_driving\n"}


def patch_set(distribution: str, module: str, library: str, source: str) -> dict[str, str]:
    """The files of an installed patch set."""
    metadata = f"{distribution.replace('-', '_')}-0.1.0.dist-info"
    return {
        f"{metadata}/METADATA": f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 0.1.0\n",
        f"{metadata}/entry_points.txt": f"[patcher.patch_sets]\n{library} = {module}\n",
        f"{module}.py": source,
    }


@pytest.fixture
def run_program(run_python) -> Callable[..., subprocess.CompletedProcess[str]]:
    """``run_program(code, files={}, check=True)``: run a program as its author wrote it, libraries beside it."""

    def run(
        code: str, files: Mapping[str, str] | None = None, **options: object
    ) -> subprocess.CompletedProcess[str]:
        return run_python(code, {**ALIAS, **(files or {})}, **options)

    return run
