"""The first minute of a user with an installed distribution; run by `nox -s release` in a clean environment.

    python smoke_test.py MODULE [COMPANION...]

A companion is a patch set that makes the libraries importable which MODULE patches, as that of mmcv does for mmdet.
Uses nothing of this repository but what is installed. Exits with a traceback if something does not hold.
"""

from __future__ import annotations

import importlib
import json
import sys

from patcher_core import AtomicPatch, Patcher
from patcher_core.results import PatchStatus


def check_engine() -> None:
    """A patch is applied, and restore() puts the very object back."""
    original = json.dumps
    with Patcher().add(AtomicPatch("json.dumps", lambda value: "patched")) as patcher:
        assert json.dumps(1) == "patched", patcher.report
    assert json.dumps is original


def check_patch_set(name: str) -> None:
    """The set composes by hand and applies to the libraries that are installed; nothing fails."""
    patch_set = importlib.import_module(name)
    patcher = Patcher().add(*patch_set.ALL)
    patcher.apply()
    outcomes = list(patcher.report.results)
    failed = [result for result in outcomes if result.status is PatchStatus.FAILED]
    applied = [result for result in outcomes if result.status is PatchStatus.APPLIED]
    assert not failed, failed
    assert applied or not patch_set.ALL, outcomes
    patcher.restore()
    print(f"{name}: {len(applied)} of {len(outcomes)} targets patched")


def main() -> None:
    name, *companions = sys.argv[1:]
    module = importlib.import_module(name)
    check_engine()
    if hasattr(module, "ALL"):
        defaults = (getattr(importlib.import_module(other), "DEFAULT", ()) for other in companions)
        with Patcher().add(*(patch for default in defaults for patch in default)):
            check_patch_set(name)


if __name__ == "__main__":
    main()
