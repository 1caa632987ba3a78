"""``StepController``: counts the steps of a training run and does what is due after each."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Callable, Iterable, Iterator

from ..events import patcher_logger
from ..results import described_error
from .loaders import StoppableLoader
from .settings import Brake, Profiler, Profiling

#: Who counts, by precedence: an optimizer's steps inside ``patcher.steps()`` are not counted, and neither counts while
#: the loop of a framework runs.
OPTIMIZER = 0
STEPS = 1
LOOP = 2

#: Between two progress lines of a wait.
_PROGRESS_STEPS = 10


class Run:
    """One run of a training loop, from its first step to its end."""

    def __init__(self, counted_by: int) -> None:
        self.counted_by = counted_by
        self.steps = 0  #: that have finished
        self.has_begun = False
        self.has_stopped = False
        self.profiler: Profiler | None = None


class StepController:
    """Profiles a training run and ends it early.

    Whoever runs a loop enters :meth:`loop`, calls :meth:`begin` before its first step and :meth:`step` after each, and
    ends the loop in its own way when :meth:`step` says so. Steps are those of this run: one that is resumed starts
    at 0, and so does the next loop that the program enters.

    Args:
        open_profiler: ``open_profiler(profiling) -> Profiler``, called when a run begins.

    Attributes:
        profiling, brake: what the user chose; None: neither.
    """

    def __init__(self, open_profiler: Callable[[Profiling], Profiler]) -> None:
        self.profiling: Profiling | None = None
        self.brake: Brake | None = None
        self.has_counted = False  #: any step, in any run
        self._open_profiler = open_profiler
        self._run: Run | None = None
        self._loops = 0  # entered and not left
        self._process = os.getpid()

    # ------------------------------------------------------------------ asking
    @property
    def stop_step(self) -> int | None:
        """After so many steps a run stops; None: it does not."""
        if self.brake is None:
            return None
        if self.brake.step is not None:
            return self.brake.step
        return self.profiling.total_steps if self.profiling is not None else None

    @property
    def is_last_step(self) -> bool:
        """True from the beginning of the last step to its end."""
        run = self._run
        return run is not None and not run.has_stopped and run.steps + 1 == self.stop_step

    @property
    def has_stopped(self) -> bool:
        """True from the end of the last step to the end of the run."""
        return self._run is not None and self._run.has_stopped

    @property
    def ends_program(self) -> bool:
        """False where the program goes on after a training that was stopped."""
        return self.brake is not None and self.brake.exit_code is not None

    # ------------------------------------------------------------------ the loop of a framework
    @contextlib.contextmanager
    def loop(self) -> Iterator[StepController]:
        """Entered around a training loop and everything that belongs to its end; may be nested.

        Leaving the outermost one ends the run. If it was stopped, the program is ended as the user chose.
        """
        if not self._loops:
            self._end_run()
            self._run = Run(LOOP)
        self._loops += 1
        try:
            yield self
            stopped = self.has_stopped
        finally:
            self._loops -= 1
            if not self._loops:
                self._end_run()
        if stopped and not self._loops:
            self.leave()

    def begin(self) -> None:
        """The first step of the run is about to begin; further calls do nothing."""
        run = self._run
        if run is None or run.has_begun:
            return
        run.has_begun = True
        if self.profiling is None:
            return
        try:
            run.profiler = self._open_profiler(self.profiling)
            run.profiler.start()
        except Exception as error:
            self._lose_profiler(run, error)
        else:
            self._tell_progress(run, "")

    def step(self) -> bool:
        """A step has finished; True if the run is to stop now."""
        self.begin()
        run = self._run
        if run is None or run.has_stopped:
            return run is not None
        self.has_counted = True
        run.steps += 1
        self._profile(run)
        if run.steps == self.stop_step:
            run.has_stopped = True
            patcher_logger.info(f"early stop: this run has made its {run.steps} steps, as brake_at() says")
        return run.has_stopped

    def stoppable(self, loader: Any) -> Any:
        """``loader``, with an iteration that ends after the last step."""
        return StoppableLoader(loader, self)

    # ------------------------------------------------------------------ loops of the user's own
    def count(self, counted_by: int) -> bool:
        """True if a loop of the user's own is to be counted by ``STEPS`` or ``OPTIMIZER`` now; its run is begun."""
        run = self._run
        if self._loops or (run is not None and run.counted_by > counted_by):
            return False
        if run is None or run.counted_by < counted_by:
            self._end_run()
            self._run = Run(counted_by)
        self.begin()
        return True

    def steps(self, iterable: Iterable[Any]) -> Iterator[Any]:
        """The items of ``iterable``, each of them a step; see :meth:`Patcher.steps`."""
        if self.has_stopped and self._run is not None and self._run.counted_by == STEPS:
            self.leave()
            return
        for item in iterable:
            is_step = self.count(STEPS)
            yield item
            if is_step and self.step():
                self.leave()
                return

    def leave(self) -> None:
        """End the program as the user chose. Raises SystemExit, or gives back None where the program is to go on."""
        if self.ends_program and self.brake is not None:
            raise SystemExit(self.brake.exit_code)

    def close(self) -> None:
        """The process ends, or the patcher is restored: end what still runs."""
        if os.getpid() == self._process:
            self._end_run()

    # ------------------------------------------------------------------ profiling
    def _profile(self, run: Run) -> None:
        if run.profiler is None or self.profiling is None:
            return
        total = self.profiling.total_steps
        if run.steps != self.stop_step or run.steps >= total:  # else an empty step would end the trace
            try:
                run.profiler.step()
            except Exception as error:
                self._lose_profiler(run, error)
                return
        if run.steps in (total, self.stop_step):
            self._close_profiler(run)
        self._tell_progress(run, self.profiling.phase(run.steps))

    def _close_profiler(self, run: Run) -> None:
        profiler, run.profiler = run.profiler, None
        if profiler is None:
            return
        try:
            profiler.stop()
        except Exception as error:
            self._lose_profiler(run, error)

    def _lose_profiler(self, run: Run, error: Exception) -> None:
        run.profiler = None
        patcher_logger.error(f"profiling has ended, the training goes on: {described_error(error)}")

    def _tell_progress(self, run: Run, before: str) -> None:
        assert self.profiling is not None
        profiling, step = self.profiling, run.steps + 1
        phase = profiling.phase(step)
        head = f"profiling: {run.steps} of {profiling.total_steps} steps"
        if phase == "over":
            patcher_logger.info(f"{head}; the last trace is in {profiling.path}")
        elif phase == "waiting" and (before != phase or run.steps % _PROGRESS_STEPS == 0):
            patcher_logger.info(
                f"{head}; waiting, the next recorded one is step {profiling.next_recorded_step(step)}"
            )
        elif before != phase:
            patcher_logger.info(f"{head}; {phase}")

    def _end_run(self) -> None:
        run, self._run = self._run, None
        if run is None:
            return
        unfinished = run.profiler is not None and self.profiling is not None
        self._close_profiler(run)
        if unfinished and self.profiling is not None:
            patcher_logger.warning(
                f"the training ended after {run.steps} steps, before the {self.profiling.total_steps} that profiling"
                " takes; lower skip_first, wait or repeat of with_profiling()"
            )
