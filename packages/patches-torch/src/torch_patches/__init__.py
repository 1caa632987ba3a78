"""Patches for torch, numpy, torch_scatter and the standard library, and the device environment of every other set.

Importing this imports none of these libraries.
"""

from __future__ import annotations

from .internal_format import InternalFormat
from .torch_compile import TorchCompile
from .transfer_to_npu import TransferToNpu

#: every class
CATALOG = (TorchCompile, InternalFormat, TransferToNpu)

__all__ = ["CATALOG", "InternalFormat", "TorchCompile", "TransferToNpu"]
