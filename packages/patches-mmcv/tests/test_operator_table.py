"""docs/mmcv-operators.md says what is in the package now."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

pytest.importorskip("torch")

DOCS = Path(__file__).parents[3] / "docs"

pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="the docs are not beside this package")


def test_the_table_is_up_to_date_else_run_docs_mmcv_operators() -> None:
    page = runpy.run_path(str(DOCS / "mmcv_operators.py"))["page"]()
    assert (DOCS / "mmcv-operators.md").read_text(encoding="utf-8") == page


def test_every_function_has_a_test() -> None:
    rows = [
        line
        for line in (DOCS / "mmcv-operators.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("| `")
    ]
    assert rows
    untested = [row for row in rows if "(#tests)" not in row and "not written yet" not in row]
    assert untested == []


def test_what_was_measured_keeps_the_promise_of_each_function() -> None:
    from mmcv_patches.extension import WORKING_MEMORY_BYTES, declared_functions

    measured = json.loads((DOCS / "mmcv-operators-memory.json").read_text(encoding="utf-8"))
    assert {name for name in declared_functions() if not name.startswith("get_compil")} == measured.keys()
    for name, one in measured.items():
        allowed = declared_functions()[name].memory * one["given"] + WORKING_MEMORY_BYTES / 2**20
        assert one["added"] <= allowed, name
