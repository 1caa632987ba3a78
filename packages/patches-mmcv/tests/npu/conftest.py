"""What the tests on the simulated NPU share: patched ``mmcv.ops`` whose patches call ``mx_driving``."""

from __future__ import annotations

import importlib
import types
import warnings
from typing import Iterator

import pytest


@pytest.fixture(scope="module")
def mmcv_ops(simulated_npu) -> Iterator[types.ModuleType]:
    """``mmcv.ops`` with every patch of the set, in its NPU implementation where it has one."""
    import mmcv_patches
    from patcher_core import Patcher, register_backend
    from patcher_core.backends import known_backends

    if "npu" not in known_backends():
        register_backend("npu", lambda: "")
    extension, *others = mmcv_patches.ALL
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # mmcv's and mx_driving's own, at import
        importlib.import_module("mx_driving")
        with Patcher().add(extension), Patcher(backend="npu").add(*others):
            yield importlib.import_module("mmcv.ops")
