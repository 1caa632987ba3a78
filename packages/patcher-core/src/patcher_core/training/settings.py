"""What the user chose: which steps are profiled, and after which one the training ends."""

from __future__ import annotations

import os
from typing import Any, NamedTuple, Protocol

from .trace_folder import checked_characters

LEVELS = (0, 1, 2)


class Profiler(Protocol):
    """What records steps; ``torch.profiler.profile`` is one."""

    def start(self) -> Any:
        """The first step begins."""

    def step(self) -> Any:
        """A step has finished and another one begins."""

    def stop(self) -> Any:
        """There are no more steps; a recording in progress is written."""


class Profiling(NamedTuple):
    """Which steps are recorded, and how much of them.

    After ``skip_first`` steps come ``repeat + 1`` cycles of ``wait`` idle, ``warmup`` discarded and ``active`` recorded
    steps. ``repeat=0`` means not repeated. torch counts otherwise: the ``repeat`` of ``torch.profiler.schedule`` is the
    number of cycles, and 0 means that they never end.
    """

    path: str  #: folder of the traces
    level: int = 0  #: 0: the device alone; 1: the CPU as well; 2: call stacks too
    skip_first: int = 20
    wait: int = 1
    warmup: int = 1
    active: int = 1
    repeat: int = 1

    @property
    def cycles(self) -> int:
        """How many traces are written; torch's ``repeat``."""
        return self.repeat + 1

    @property
    def steps_per_cycle(self) -> int:
        return self.wait + self.warmup + self.active

    @property
    def total_steps(self) -> int:
        """After so many steps the last trace is written."""
        return self.skip_first + self.steps_per_cycle * self.cycles

    def phase(self, step: int) -> str:
        """What is done in a step, counted from 1: ``"waiting"``, ``"warming up"``, ``"recording"`` or ``"over"``."""
        if step > self.total_steps:
            return "over"
        if step <= self.skip_first:
            return "waiting"
        position = (step - self.skip_first - 1) % self.steps_per_cycle
        if position < self.wait:
            return "waiting"
        return "warming up" if position < self.wait + self.warmup else "recording"

    def next_recorded_step(self, step: int) -> int:
        """The first recorded step from ``step`` on; both are counted from 1."""
        while self.phase(step) in ("waiting", "warming up"):
            step += 1
        return step


def checked_profiling(path: Any, level: Any, **counts: Any) -> Profiling:
    """The settings, with an absolute path free of symbolic links.

    Raises:
        TypeError, ValueError: naming the argument.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"path must be the folder for the traces, got {path!r}")
    folder = os.fspath(path)
    if not isinstance(folder, str) or not folder:
        raise ValueError(f"path must be the folder for the traces, got {path!r}")
    if isinstance(level, bool) or level not in LEVELS:
        raise ValueError(
            f"level must be 0 (the device alone), 1 (the CPU as well) or 2 (call stacks too), got {level!r}"
        )
    for name, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, int):
            raise TypeError(f"{name} must be a number of steps, got {count!r}")
        least = 1 if name == "active" else 0
        if count < least:
            raise ValueError(f"{name} must be at least {least}, got {count}")
    return Profiling(checked_characters(os.path.realpath(os.path.expanduser(folder))), level, **counts)


class Brake(NamedTuple):
    """When the training ends early."""

    step: int | None  #: after so many steps; None: when the last trace is written
    exit_code: int | None  #: of the program, which ends with the training; None: it goes on


def checked_brake(step: Any, exit_code: Any) -> Brake:
    """The settings; TypeError or ValueError that names the argument."""
    if step is not None:
        if isinstance(step, bool) or not isinstance(step, int):
            raise TypeError(f"step must be a number of steps or None, got {step!r}")
        if step < 1:
            raise ValueError(f"step must be at least 1, got {step}")
    if exit_code is not None and (isinstance(exit_code, bool) or not isinstance(exit_code, int)):
        raise TypeError(f"exit_code must be an int, or None to let the program go on, got {exit_code!r}")
    if exit_code is not None and not 0 <= exit_code <= 255:
        raise ValueError(f"exit_code must be 0 to 255, got {exit_code}")
    return Brake(step, exit_code)
