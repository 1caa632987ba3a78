from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import warnings
from pathlib import Path

import pytest


@pytest.fixture
def mmcv_ops():
    """mmcv.ops with its compiled extension, on the CPU: a reference that was not written here."""
    folder = os.environ.get("PATCHER_REFERENCE_MMCV")
    if folder and folder not in sys.path:
        sys.path.append(folder)
    mmcv = importlib.util.find_spec("mmcv")
    if mmcv is None or not list(Path(mmcv.origin).parent.glob("_ext*.so")):
        pytest.skip("no compiled reference here")
    with warnings.catch_warnings():
        # deprecations of what mmengine imports
        warnings.simplefilter("ignore")
        return importlib.import_module("mmcv.ops")
