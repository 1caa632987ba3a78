"""Ratios of two ways to do the same thing, measured in pairs.

Both sides run close together in time, in alternating order, so that what slows one slows the other. A ratio
is the median over all pairs, its spread the middle half of them. The garbage collector is off. Times are
CPU times: what other programs do meanwhile does not count.
"""

from __future__ import annotations

import gc
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Callable, Iterator, Mapping, Sequence


@dataclass(frozen=True)
class Ratio:
    """Time of ours ÷ time of the peer: the median of all pairs, and the quartiles around it."""

    median: float
    low: float
    high: float
    ours_seconds: float
    peer_seconds: float

    @classmethod
    def of(cls, pairs: Sequence[tuple[float, float]]) -> Ratio:
        """The ratio of pairs of times, ours first."""
        ours, peer = zip(*pairs)
        low, median, high = statistics.quantiles([a / b for a, b in pairs], n=4)
        return cls(median, low, high, statistics.median(ours), statistics.median(peer))


@dataclass(frozen=True)
class Figure:
    """One row of the table: a ratio and the peer it is taken against.

    `reach` is the largest ratio that is good enough; None for a figure that is only shown.
    """

    name: str
    ratio: Ratio
    reach: float | None
    peer: str

    @property
    def reached(self) -> bool:
        return self.reach is None or self.ratio.median <= self.reach


@dataclass(frozen=True)
class Amount:
    """One row of the table that has no peer: an amount in a unit, and the largest that is good enough."""

    name: str
    value: float
    unit: str
    reach: float | None

    @property
    def reached(self) -> bool:
        return self.reach is None or self.value <= self.reach


def paired(
    ours: Callable[[], Any],
    peer: Callable[[], Any],
    *,
    pairs: int = 101,
    batch_seconds: float = 2e-3,
    clock: Callable[[], float] = time.process_time,
) -> Ratio:
    """Call two functions in this process, each as often as the other.

    One measurement repeats a function for at least `batch_seconds`. The loop costs some 20 ns a call on both
    sides: functions that take less than a microsecond should repeat their work themselves.
    `clock=time.perf_counter` measures elapsed time, for work on several threads.
    """
    repeats = max(_repeats(function, batch_seconds, clock) for function in (ours, peer))
    return measured_in_turn(
        lambda: _time(ours, repeats, clock) / repeats, lambda: _time(peer, repeats, clock) / repeats, pairs
    )


def paired_states(
    function: Callable[[], Any],
    enter: Callable[[], Any],
    leave: Callable[[], Any],
    *,
    pairs: int = 31,
    batch_seconds: float = 2e-2,
    clock: Callable[[], float] = time.process_time,
) -> Ratio:
    """Call one function in two states of this process: after `enter()`, and after `leave()`, which are not timed."""
    repeats = _repeats(function, batch_seconds, clock)

    def after(change: Callable[[], Any]) -> Callable[[], float]:
        def measure() -> float:
            change()
            function()
            return _time(function, repeats, clock) / repeats

        return measure

    return measured_in_turn(after(enter), after(leave), pairs)


def paired_processes(
    ours: str,
    peer: str,
    *,
    bare: str | None = "pass",
    pairs: int = 31,
    variables: Mapping[str, str] | None = None,
) -> Ratio:
    """Run two pieces of code in fresh interpreters: whole processes, less one that runs `bare` if given.

    `variables` are environment variables of all of them.
    """
    environment = {**os.environ, **(variables or {})}

    def seconds(code: str) -> float:
        less = 0.0 if bare is None else _process_seconds(bare, environment)
        return _process_seconds(code, environment) - less

    return measured_in_turn(lambda: seconds(ours), lambda: seconds(peer), pairs)


def measured_in_turn(time_ours: Callable[[], float], time_peer: Callable[[], float], pairs: int) -> Ratio:
    """Call two functions that give back the seconds of what is to be compared, in alternating order."""
    ours: list[float] = []
    peer: list[float] = []
    time_ours(), time_peer()
    with _garbage_collector_off():
        for pair in range(pairs):
            sides = [(ours, time_ours), (peer, time_peer)]
            for times, measure in reversed(sides) if pair % 2 else sides:
                times.append(measure())
    return Ratio.of(list(zip(ours, peer)))


def machine() -> str:
    """The processor, the number of cores and the Python that figures were taken on."""
    processor = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as lines:
            models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        processor = models[0] if models else processor
    implementation = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{processor}, {os.cpu_count()} cores, {platform.system()}, {implementation}"


def _repeats(function: Callable[[], Any], seconds: float, clock: Callable[[], float]) -> int:
    repeats = 1
    while _time(function, repeats, clock) < seconds:
        repeats *= 2
    return repeats


def _time(function: Callable[[], Any], repeats: int, clock: Callable[[], float]) -> float:
    rounds = range(repeats)
    start = clock()
    for _ in rounds:
        function()
    return clock() - start


def _process_seconds(code: str, environment: Mapping[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@contextmanager
def _garbage_collector_off() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
