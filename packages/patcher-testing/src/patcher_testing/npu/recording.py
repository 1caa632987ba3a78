"""Which operators ran: what a test asserts when equal numbers are not enough."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Iterator, Mapping

import torch

from .memory import map_nested


@dataclass(frozen=True)
class TensorDescription:
    """What is remembered of a tensor argument, so that a recording keeps no memory alive."""

    shape: tuple[int, ...]
    dtype: torch.dtype


@dataclass(frozen=True)
class OperatorCall:
    """One operator that ran on the simulated device."""

    #: `npu::npu_rms_norm`, `aten::add.Tensor`, `mx_driving::npu_max_pool2d` (its compiled part) or
    #: `mx_driving.npu_add_relu` (its public Python function)
    name: str
    #: positional arguments as the operator received them; tensors are described
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


def _describe(value: Any) -> Any:
    return TensorDescription(tuple(value.shape), value.dtype) if isinstance(value, torch.Tensor) else value


class OperatorRecording:
    """The operators that ran while it was active, in order, backward passes and other threads included."""

    def __init__(self) -> None:
        self.calls: list[OperatorCall] = []

    @property
    def counts(self) -> Counter[str]:
        """How often each operator ran, by full name."""
        return Counter(call.name for call in self.calls)

    def of(self, name: str) -> list[OperatorCall]:
        """Calls of one operator: a full name, or the name without its namespace and overload."""
        return [call for call in self.calls if name in (call.name, _short_name(call.name))]

    def assert_ran(self, name: str, times: int | None = None) -> None:
        """Fail unless `name` ran (exactly `times` times, where given), and say what ran instead.

        Raises:
            AssertionError: it did not.
        """
        found = len(self.of(name))
        if found == 0 or (times is not None and found != times):
            expected = "at least once" if times is None else f"{times} times"
            ran = ", ".join(f"{ran} x{count}" for ran, count in sorted(self.counts.items())) or "nothing"
            raise AssertionError(f"expected {name} to run {expected}, it ran {found} times; what ran: {ran}")

    def assert_did_not_run(self, name: str) -> None:
        """Fail if `name` ran.

        Raises:
            AssertionError: it ran.
        """
        if self.of(name):
            raise AssertionError(f"{name} ran {len(self.of(name))} times, expected never")


def _short_name(name: str) -> str:
    return name.rpartition("::")[2].rpartition("mx_driving.")[2].partition(".")[0]


_active: list[OperatorRecording] = []


def note(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Called by every kernel of the simulated device."""
    if _active:
        described = {key: map_nested(_describe, value) for key, value in kwargs.items()}
        call = OperatorCall(name, map_nested(_describe, tuple(args)), described)
        for recording in _active:
            recording.calls.append(call)


@contextmanager
def record_operators() -> Iterator[OperatorRecording]:
    """Record the operators that run on the simulated device within the block."""
    recording = OperatorRecording()
    _active.append(recording)
    try:
        yield recording
    finally:
        _active.remove(recording)
