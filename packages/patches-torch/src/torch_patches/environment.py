"""The environment steps that every ``apply()`` takes where torch is installed, in the order in which they run."""

from __future__ import annotations

from .internal_format import InternalFormat
from .torch_compile import TorchCompile
from .transfer_to_npu import TransferToNpu

STEPS = (TorchCompile, InternalFormat, TransferToNpu)
