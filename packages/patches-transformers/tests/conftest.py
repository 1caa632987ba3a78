"""A printed seed for every test, and one thread."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
_HERE = Path(__file__).parent
sys.path[:0] = [str(_HERE), str(_HERE.parent / "tools")]


@pytest.fixture(autouse=True)
def seed():
    value = int(os.environ.get("TEST_SEED", random.randrange(2**31)))
    print(f"TEST_SEED={value}")
    torch.manual_seed(value)
    torch.set_num_threads(1)
    return value


def pytest_addoption(parser):
    parser.addoption(
        "--all-families", action="store_true", help="compare every model family of transformers, not a few"
    )
