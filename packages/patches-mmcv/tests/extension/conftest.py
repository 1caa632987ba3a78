"""What the tests of the plain PyTorch operators share: a printed seed, our module, the compiled one."""

from __future__ import annotations

import os
import random
import types
from typing import Callable

import pytest

torch = pytest.importorskip("torch")

from mmcv_patches.extension import build_extension_module  # noqa: E402


@pytest.fixture(autouse=True)
def seed() -> int:
    """A new seed for every test, printed; TEST_SEED repeats one."""
    value = int(os.environ.get("TEST_SEED", random.randrange(2**31)))
    print(f"TEST_SEED={value}")
    torch.manual_seed(value)
    return value


@pytest.fixture(scope="session")
def extension() -> types.ModuleType:
    """mmcv._ext in plain PyTorch."""
    return build_extension_module()


@pytest.fixture(scope="session")
def compiled() -> types.ModuleType:
    """The compiled mmcv._ext."""
    try:
        import mmcv._ext as module
    except ImportError:
        pytest.skip("no compiled reference here: mmcv._ext is not installed")
    if not getattr(module, "__file__", None):
        pytest.skip("no compiled reference here: mmcv._ext is not a compiled module")
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
