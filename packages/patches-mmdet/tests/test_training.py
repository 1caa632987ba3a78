"""A detector from its shipped configuration, trained with and without patches in programs of their own."""

from __future__ import annotations

import os

import pytest

pytest.importorskip("mmengine", reason="mmdet 2.x: this program is written for mmdet 3.x")


@pytest.mark.skipif("PATCHER_REFERENCE_MMCV" not in os.environ, reason="no compiled reference here")
def test_faster_rcnn_trains_as_unpatched_on_compiled_mmcv(train) -> None:
    expected = train("faster_rcnn", "unpatched", with_compiled_mmcv=True)
    found = train("faster_rcnn", "patched")
    assert len(expected) == 3 and len(set(expected)) == 3
    assert found == pytest.approx(expected, rel=1e-4)
