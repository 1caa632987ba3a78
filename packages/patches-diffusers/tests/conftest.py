"""A printed seed for every test, and one thread."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="these are patches of code that is written in torch")
sys.path.insert(0, str(Path(__file__).parent))

if importlib.util.find_spec("diffusers") is None:
    collect_ignore_glob = ["*.py"]


torch.set_num_threads(1)


def pytest_configure(config):
    """diffusers 0.36 warns about the machine when test modules import it."""
    config.addinivalue_line(
        "filterwarnings", "ignore:CUDA is not available or torch_xla is imported:UserWarning"
    )


def pytest_collection_modifyitems(items):
    """diffusers and what it imports warn about themselves and one another; no test here is about that."""
    here = Path(__file__).parent
    for item in items:
        if here in Path(item.path).parents:
            for category in ("FutureWarning", "DeprecationWarning", "UserWarning"):
                item.add_marker(pytest.mark.filterwarnings(f"ignore::{category}"))
