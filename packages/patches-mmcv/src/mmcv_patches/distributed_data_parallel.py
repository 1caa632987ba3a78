"""mmcv 1.x: ``MMDistributedDataParallel`` with newer torch and on NPUs."""

from __future__ import annotations

import contextlib
from typing import Any, Mapping

from patcher_core import AtomicPatch, Patch, backend_of

from .stream import MMCV_1

_CLASS = "mmcv.parallel.distributed.MMDistributedDataParallel"
_NPU_CLASS = "mmcv.device.npu.NPUDistributedDataParallel"


class DDP(Patch):
    """``MMDistributedDataParallel._run_ddp_forward`` for every torch, and mmcv's own class for NPUs on an NPU."""

    name = "ddp"
    legacy_name = "ddp"
    library = "mmcv"
    requires = MMCV_1
    why = (
        "_run_ddp_forward of mmcv reads _use_replicated_tensor_module, which torch 2.1 removed; torch's own does not"
        " unpack DataContainers; on an NPU a batch is copied, not scattered"
    )
    upstream = "mmcv/parallel/distributed.py, mmcv 1.4.0 to 1.7.2"
    until = "mmcv 2.0, which has no mmcv.parallel"
    backends = ("npu", "portable")

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        patches = [AtomicPatch(f"{_CLASS}._run_ddp_forward", run_ddp_forward)]
        if backend_of(options) == "npu":
            patches.append(AtomicPatch(_CLASS, _NPU_CLASS, precheck=mmcv_has_a_class_for_npus))
        return patches


def run_ddp_forward(self: Any, *inputs: Any, **kwargs: Any) -> Any:
    """Unpack the batch for this process's device, and call the wrapped module."""
    if self.device_ids:
        all_inputs, all_kwargs = self.to_kwargs(inputs, kwargs, self.device_ids[0])
        inputs, kwargs = all_inputs[0], all_kwargs[0]
    replicated = getattr(self, "_use_replicated_tensor_module", False)
    module = self._replicated_tensor_module if replicated else self.module
    with _inside_forward(self):
        return module(*inputs, **kwargs)


def _inside_forward(self: Any) -> Any:
    """What torch 2.1 and newer put around the call, unless the reducer is the one in Python."""
    inside = getattr(self, "_inside_ddp_forward", None)
    if inside is None or getattr(self, "_use_python_reducer", False):
        return contextlib.nullcontext()
    return inside()


def mmcv_has_a_class_for_npus() -> bool:
    """True since mmcv 1.7."""
    try:
        from mmcv.device.npu import NPUDistributedDataParallel
    except ImportError:
        return False
    return isinstance(NPUDistributedDataParallel, type)
