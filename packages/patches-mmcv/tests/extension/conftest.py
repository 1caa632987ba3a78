"""What the tests of the plain PyTorch operators share: our module, the compiled one."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
import types
import warnings
from pathlib import Path
from typing import Callable, Iterator

import pytest

torch = pytest.importorskip("torch")

from mmcv_patches import PortableExtension  # noqa: E402


@pytest.fixture(scope="session")
def extension() -> types.ModuleType:
    """mmcv._ext in plain PyTorch."""
    return PortableExtension.patches()[0].factory()


@pytest.fixture(scope="session")
def compiled() -> types.ModuleType:
    """The compiled mmcv._ext, of the folder that PATCHER_REFERENCE_MMCV names or of the installed mmcv."""
    folder = os.environ.get("PATCHER_REFERENCE_MMCV")
    found = [*Path(folder, "mmcv").glob("_ext*.so")] if folder else [*installed_extension_files()]
    if not found:
        pytest.skip("no compiled reference here")
    spec = importlib.util.spec_from_file_location("_ext", found[0])
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def assert_matches() -> Callable[..., None]:
    """``assert_matches(actual, expected)``: equal shapes, values within the rounding of actual's dtype.

    ``expected`` may be in a wider dtype. ``scale`` is the magnitude of the terms that were summed, where it
    is larger than that of the results.
    """

    def check(actual: torch.Tensor, expected: torch.Tensor, scale: float = 1.0) -> None:
        tolerance = {torch.float64: 1e-9, torch.float32: 2e-5, torch.float16: 2e-3}[actual.dtype]
        torch.testing.assert_close(actual.double(), expected.double(), rtol=tolerance, atol=tolerance * scale)

    return check


@pytest.fixture(scope="session")
def mmcv_ops(extension: types.ModuleType) -> types.ModuleType:
    """mmcv.ops over our module: its own modules and autograd functions call the plain PyTorch operators."""
    if [*installed_extension_files()]:
        pytest.skip("mmcv.ops uses its own compiled operators here")
    pytest.importorskip("mmcv")
    extension.__spec__ = importlib.machinery.ModuleSpec("mmcv._ext", None)  # mmengine looks for it
    sys.modules["mmcv._ext"] = extension
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # mmcv's own, at import
        return importlib.import_module("mmcv.ops")


def installed_extension_files() -> Iterator[Path]:
    spec = importlib.util.find_spec("mmcv")
    for location in (spec.submodule_search_locations or ()) if spec else ():
        yield from Path(location).glob("_ext*.so")


@pytest.fixture(scope="session")
def bilinear() -> Callable[[torch.Tensor, float, float], torch.Tensor]:
    """A sample of planes (..., height, width) at (y, x), by definition, with a border one pixel wide."""

    def sample(plane: torch.Tensor, y: float, x: float) -> torch.Tensor:
        height, width = plane.shape[-2:]
        if not (-1 <= y <= height and -1 <= x <= width):
            return plane[..., 0, 0] * 0
        y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
        top, left = int(y), int(x)
        bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
        down, across = y - top, x - left
        upper = plane[..., top, left] * (1 - across) + plane[..., top, right] * across
        lower = plane[..., bottom, left] * (1 - across) + plane[..., bottom, right] * across
        return upper * (1 - down) + lower * down

    return sample
