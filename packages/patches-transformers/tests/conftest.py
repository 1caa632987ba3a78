"""One thread, and the option that compares every family."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
_HERE = Path(__file__).parent
sys.path[:0] = [str(_HERE), str(_HERE.parent / "tools")]


torch.set_num_threads(1)


def pytest_addoption(parser):
    parser.addoption(
        "--all-families", action="store_true", help="compare every model family of transformers, not a few"
    )
