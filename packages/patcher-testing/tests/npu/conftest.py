from __future__ import annotations

import importlib
import os
import sys
import warnings

import pytest


@pytest.fixture
def mmcv_ops():
    """mmcv.ops with its compiled extension, on the CPU: a reference that was not written here."""
    folder = os.environ.get("PATCHER_REFERENCE_MMCV")
    if folder and folder not in sys.path:
        sys.path.append(folder)
    with warnings.catch_warnings():
        # deprecations of what mmengine imports
        warnings.simplefilter("ignore")
        pytest.importorskip("mmcv._ext", reason="no compiled reference here")
        return importlib.import_module("mmcv.ops")
