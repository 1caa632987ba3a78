"""What can be missing before an NPU can be simulated, and what a simulation cannot do."""

from __future__ import annotations


class SimulatedNpuUnavailable(RuntimeError):
    """The simulated NPU cannot start here. The text names what is missing and how to get it."""


class OperatorNotModelled(NotImplementedError):
    """An operator was called for which the simulated NPU has no reference implementation."""

    def __init__(self, operator: str) -> None:
        self.operator = operator
        super().__init__(
            f"the simulated NPU has no model of {operator}; give it one, a function of CPU tensors, with "
            f"simulated_npu.register_reference({operator!r}, function)"
        )
