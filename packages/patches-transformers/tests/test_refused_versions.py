"""A version of transformers below the pins is left alone, and every patch says so."""

from __future__ import annotations

import pytest
from packaging.version import Version

import transformers_patches
from patcher_core import Patcher, get_version

INSTALLED = get_version("transformers")
pytestmark = pytest.mark.skipif(
    INSTALLED is None or Version(INSTALLED) >= Version("4.48"),
    reason="no transformers below the pins is installed in this environment",
)


def test_nothing_is_applied_and_every_patch_names_the_version_found_and_those_verified() -> None:
    with Patcher().add(*transformers_patches.ALL) as patcher:
        reasons = {r.name: r.reason for r in patcher.report if "is not installed" not in r.reason}
    assert not patcher.report.applied and len(reasons) > 5
    verified = f"found {INSTALLED}, verified for >=4.48,<"
    assert not {name: reason for name, reason in reasons.items() if not reason.startswith(verified)}
