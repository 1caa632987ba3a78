"""A simulated NPU: the real torch_npu on a machine that has none.

Importing this loads no torch. See docs/testing-without-an-npu.md.
"""

from __future__ import annotations

from .errors import OperatorNotModelled, SimulatedNpuUnavailable
from .session import SimulatedNpu, simulated_npu

__all__ = ["OperatorNotModelled", "SimulatedNpu", "SimulatedNpuUnavailable", "simulated_npu"]
