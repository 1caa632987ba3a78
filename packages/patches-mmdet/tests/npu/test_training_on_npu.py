"""A detector from its shipped configuration, trained on the simulated NPU with the default patches."""

from __future__ import annotations

import pytest


def test_faster_rcnn_trains_as_on_the_cpu(train) -> None:
    expected = train("faster_rcnn", "patched")
    found = train("faster_rcnn", "patched", "npu")
    assert len(set(expected)) == 3
    assert found == pytest.approx(expected, rel=1e-3)
