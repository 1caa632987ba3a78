"""What the tests of the plain PyTorch operators share: a printed seed, our module, the compiled one."""

from __future__ import annotations

import os
import random
import types

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
