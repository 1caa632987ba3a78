"""Patches for torch, numpy, torch_scatter and the standard library, and the device environment of every other set.

``CATALOG`` lists every patch and environment step, ``ALL`` the patches that can be enabled together, ``DEFAULT`` those
that ``default_patcher`` takes, ``LEGACY`` those that have a function in the 1.0 API. Importing this package imports
none of the libraries. Each patch is loaded when it is first asked for: a program that uses numpy alone is to pay for
numpy's alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .batch_matmul import BatchMatmul
    from .fused_adamw import FusedAdamW
    from .internal_format import InternalFormat
    from .removed_names import CollectionsCompat, NumpyCompat
    from .tensor_index import TensorIndex
    from .torch_compile import TorchCompile
    from .torch_scatter import TorchScatter
    from .transfer_to_npu import TransferToNpu

    ALL: list[Any]
    CATALOG: list[Any]
    DEFAULT: list[Any]
    LEGACY: list[Any]

_HOMES = {
    "NumpyCompat": "removed_names",
    "TensorIndex": "tensor_index",
    "BatchMatmul": "batch_matmul",
    "CollectionsCompat": "removed_names",
    "FusedAdamW": "fused_adamw",
    "TorchScatter": "torch_scatter",
    "TorchCompile": "torch_compile",
    "InternalFormat": "internal_format",
    "TransferToNpu": "transfer_to_npu",
}
_DEFAULT = ("NumpyCompat", "TensorIndex", "BatchMatmul")
_ALL = (*_DEFAULT, "CollectionsCompat", "FusedAdamW", "TorchScatter")

__all__ = [
    "ALL",
    "CATALOG",
    "DEFAULT",
    "LEGACY",
    "BatchMatmul",
    "CollectionsCompat",
    "FusedAdamW",
    "InternalFormat",
    "NumpyCompat",
    "TensorIndex",
    "TorchCompile",
    "TorchScatter",
    "TransferToNpu",
]


def __getattr__(name: str) -> Any:
    value: Any
    if name in _HOMES:
        from importlib import import_module

        value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    elif name in ("DEFAULT", "ALL", "CATALOG"):
        listed = {"DEFAULT": _DEFAULT, "ALL": _ALL, "CATALOG": _HOMES}[name]
        value = [globals().get(patch) or __getattr__(patch) for patch in listed]
    elif name == "LEGACY":
        value = [patch for patch in __getattr__("CATALOG") if patch.legacy_name]
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
