"""The simulated NPU for the length of a block, where that is wanted: what needs none loads no torch."""

from __future__ import annotations

import contextlib
from typing import Any, ContextManager


def simulated_npu_if(wanted: bool) -> ContextManager[Any]:
    """``patcher_testing.npu.simulated_npu()``, or a context in which nothing happens."""
    if not wanted:
        return contextlib.nullcontext()
    from .npu import simulated_npu

    return simulated_npu()
