"""A 3-D detector from its shipped configuration, trained with and without patches in programs of their own."""

from __future__ import annotations

import os

import pytest

from patcher_core import LibraryVersion

if not LibraryVersion("mmdet3d", has_metric=">=1.1.0").has_metric:
    pytest.skip("the program is written for mmdet3d 1.1 and later", allow_module_level=True)


@pytest.mark.skipif("PATCHER_REFERENCE_MMCV" not in os.environ, reason="no compiled reference here")
def test_pointpillars_trains_as_unpatched_on_compiled_mmcv(train) -> None:
    expected = train("pointpillars", "unpatched", with_compiled_mmcv=True)
    found = train("pointpillars", "patched")
    assert len(expected) == 3 and len(set(expected)) == 3
    assert found == pytest.approx(expected, rel=1e-4)
