"""What add() and apply() cost per patch, what a sweep costs, and what the patcher adds to other people's imports."""

from __future__ import annotations

import sys
import time
import types
import unittest.mock
from typing import Any, Iterator

from patcher_core import AtomicPatch, Patcher, configure_summary, set_patcher_log_level
from patcher_core.imports import subscribe

from .paired import Amount, Figure, measured_in_turn, paired_processes


def replacement(x: int, y: int = 1) -> int:
    return y


def targets(count: int) -> list[str]:
    """Paths of that many functions, in modules of a hundred each."""
    source = "\n".join(f"def f{index}(x, y=1): return x" for index in range(100))
    code = compile(source, "<bench_apply>", "exec")
    paths = []
    for number in range(count // 100):
        module = types.ModuleType(f"bench_apply_{number}")
        exec(code, module.__dict__)
        sys.modules[module.__name__] = module
        paths += [f"{module.__name__}.f{index}" for index in range(100)]
    return paths


def seconds_of_apply(paths: list[str]) -> float:
    """Time of making, adding and applying a patch per path; taking them back is not timed."""
    begin = time.process_time()
    patcher = Patcher().add(*[AtomicPatch(path, replacement) for path in paths]).apply()
    seconds = time.process_time() - begin
    patcher.restore()
    return seconds


def seconds_of_mock(paths: list[str]) -> float:
    """Time of making and starting one ``unittest.mock.patch`` per path; stopping them is not timed."""
    begin = time.process_time()
    patches = [unittest.mock.patch(path, replacement) for path in paths]
    for patch in patches:
        patch.start()
    seconds = time.process_time() - begin
    for patch in reversed(patches):
        patch.stop()
    return seconds


def figures() -> Iterator[Figure | Amount]:
    configure_summary(False)
    set_patcher_log_level("ERROR")
    paths = targets(10_000)
    to_mock = measured_in_turn(lambda: seconds_of_apply(paths), lambda: seconds_of_mock(paths), 9)
    yield Figure("add and apply 10,000 patches", to_mock, 0.8, "unittest.mock.patch start")
    many = targets(100_000)
    growth = measured_in_turn(lambda: seconds_of_apply(many) / 10, lambda: seconds_of_apply(paths), 3)
    yield Figure("add and apply, per patch of 100,000", growth, 1.2, "per patch of 10,000")
    yield from _sweep()
    yield from _unrelated_imports()
    script = "from patcher_core import default_patcher as p; p.apply(lazy=True); import numpy"
    # The threads that numpy starts otherwise take processor time that differs from process to process.
    one_thread = {"OPENBLAS_NUM_THREADS": "1"}
    yield Figure(
        "numpy script with default_patcher.apply(lazy=True)",
        paired_processes(script, "import numpy", bare=None, variables=one_thread),
        1.10,
        "the script alone",
    )


def _sweep() -> Iterator[Amount]:
    patch = AtomicPatch("bench_apply_0.f0", replacement)
    begin = time.process_time()
    for _ in range(20):
        Patcher().add(patch).apply().restore()
    milliseconds = (time.process_time() - begin) / 40 * 1000
    yield Amount(f"one sweep over {len(sys.modules)} loaded modules", milliseconds, "ms", None)


def _unrelated_imports() -> Iterator[Amount]:
    """The finder is asked once per import that goes through the path; what that takes is timed here."""
    subscription = subscribe("bench_unrelated_library.*", lambda module: None)
    finder: Any = sys.meta_path[0]
    count = 100_000
    begin = time.process_time()
    for _ in range(count):
        finder.find_spec("some_other_package.module", None, None)
    microseconds = (time.process_time() - begin) / count * 1e6
    subscription.cancel()
    yield Amount("finder calls per unrelated import", 1, "call", 1)
    yield Amount("time added to an unrelated import", microseconds, "µs", 3)
