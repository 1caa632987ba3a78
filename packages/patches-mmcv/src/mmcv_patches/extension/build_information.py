"""What ``mmcv.ops`` says about how its extension was built (mmcv 2.1.0, ``info.cpp``)."""

from __future__ import annotations

__all__ = ["get_compiler_version", "get_compiling_cuda_version"]


def get_compiler_version() -> str:
    """Say that nothing was compiled; environment reports of mmcv and mmengine print this."""
    return "not compiled: plain PyTorch operators of patches-mmcv"


def get_compiling_cuda_version() -> str:
    """``"not available"``, the value of an extension that was built without CUDA."""
    return "not available"
