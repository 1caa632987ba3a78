"""Patches for torch, numpy, torch_scatter and the standard library, and the device environment of every other set.

``CATALOG`` lists every patch and environment step, ``ALL`` the patches that can be enabled together, ``DEFAULT`` those
that ``default_patcher`` takes, ``LEGACY`` those that have a function in the 1.0 API. Importing this package imports
none of the libraries.
"""

from __future__ import annotations

from .batch_matmul import BatchMatmul
from .fused_adamw import FusedAdamW
from .internal_format import InternalFormat
from .removed_names import CollectionsCompat, NumpyCompat
from .tensor_index import TensorIndex
from .torch_compile import TorchCompile
from .torch_scatter import TorchScatter
from .transfer_to_npu import TransferToNpu

DEFAULT = [NumpyCompat, TensorIndex, BatchMatmul]
ALL = [*DEFAULT, CollectionsCompat, FusedAdamW, TorchScatter]
CATALOG = [*ALL, TorchCompile, InternalFormat, TransferToNpu]
LEGACY = [patch for patch in CATALOG if patch.legacy_name]

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
