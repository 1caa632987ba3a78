"""The backend ``npu``: Huawei Ascend devices through torch_npu."""

from __future__ import annotations

import importlib
from importlib.util import find_spec

_import_failure = ""


def why_unavailable() -> str:
    """ "" where torch_npu imports and there is a device, else the reason.

    torch_npu is imported if it is installed. An import that failed is not tried again: half-imported, torch_npu
    fails with another error the second time, which would hide the cause.
    """
    global _import_failure
    if _import_failure:
        return _import_failure
    if not _is_installed("torch_npu"):
        return "torch_npu is not installed"
    try:
        torch_npu = importlib.import_module("torch_npu")
    except (Exception, SystemExit) as error:
        cause = error.__cause__ or error
        _import_failure = f"torch_npu does not import: {type(cause).__name__}: {cause}"
        return _import_failure
    return "" if torch_npu.npu.device_count() > 0 else "no NPU device found"


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ValueError:  # in sys.modules without a __spec__: put there by hand, and so importable
        return True
