"""``cuda`` means ``npu``: torch_npu's own transfer, switched on by ``apply()``."""

from __future__ import annotations

import importlib
import sys
import warnings
from typing import Any, Mapping

from patcher_core import EnvironmentStep

MODULE = "torch_npu.contrib.transfer_to_npu"


class TransferToNpu(EnvironmentStep):
    """Makes ``torch.cuda``, ``tensor.cuda()``, ``device="cuda"`` and the ``nccl`` backend mean the NPU.

    It is done by importing ``torch_npu.contrib.transfer_to_npu``, lasts as long as the process, and turns
    ``torch.jit.script`` into a function that gives back what it is given. ``Patcher.disable("transfer_to_npu")`` leaves
    it out; ``restore()`` cannot undo it.
    """

    name = "transfer_to_npu"
    library = "torch"
    backends = ("npu",)
    why = "programs written for CUDA name the device cuda"

    @classmethod
    def run(cls, settings: Mapping[str, Any]) -> str:
        if MODULE not in sys.modules:
            # torch_npu warns of what the report says anyway; where warnings are errors the import would break off
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                importlib.import_module(MODULE)
        return "cuda means npu until this process ends; disable('transfer_to_npu') leaves it out"
