"""Profiling and early stop in one patcher: finds what counts steps and what records them, and hooks it in."""

from __future__ import annotations

import atexit
from typing import TYPE_CHECKING, Any, Iterable, Iterator, Mapping

from ..discovery import entry_points
from ..events import PatchError, patcher_logger
from ..results import PatchStatus, described_error
from ..source_version import is_importable
from . import trace_folder
from .controller import StepController
from .settings import Profiler, Profiling, checked_brake, checked_profiling

if TYPE_CHECKING:
    from ..patcher import Patcher

LOOPS = "patcher.training_loops"
PROFILERS = "patcher.profilers"


class TrainingSetup:
    """What a patcher keeps for :meth:`Patcher.with_profiling` and :meth:`Patcher.brake_at`.

    Args:
        name: of the patcher.
    """

    def __init__(self, name: str) -> None:
        self.controller = StepController(open_profiler)
        self._name = f"training loops of {name}"
        self._loops: Patcher | None = None

    def with_profiling(self, path: Any, level: Any, **counts: Any) -> None:
        """See :meth:`Patcher.with_profiling`."""
        self.controller.profiling = checked_profiling(path, level, **counts)

    def brake_at(self, step: Any, exit_code: Any) -> None:
        """See :meth:`Patcher.brake_at`."""
        self.controller.brake = checked_brake(step, exit_code)

    def check(self) -> None:
        """Called before anything is patched: nothing is to go wrong after hours of training.

        Raises:
            ValueError: ``brake_at()`` without a number and without profiling.
            PatchError: nothing installed can profile.
            OSError: traces cannot be written.
        """
        profiling, brake = self.controller.profiling, self.controller.brake
        if brake is not None and self.controller.stop_step is None:
            raise ValueError(
                "brake_at() without a number ends the training when the last trace is written;"
                " call with_profiling(path) too, or brake_at(number of steps)"
            )
        if profiling is None:
            return
        if not _profiler_entry_points():
            raise PatchError("nothing installed here can profile; install patches-torch and torch")
        trace_folder.prepare(profiling.path)
        if brake is not None and brake.step is not None and brake.step < profiling.total_steps:
            patcher_logger.warning(
                f"brake_at({brake.step}) ends the training before profiling does, which takes"
                f" {profiling.total_steps} steps (skip_first + (wait + warmup + active) * (repeat + 1));"
                " brake_at() without a number ends it with the last trace"
            )

    def apply(self) -> None:
        """Hook the controller into every training loop, now or when its library is imported; imports nothing."""
        if self._loops is not None:
            return
        from ..patcher import Patcher

        self._loops = Patcher(name=self._name)
        self._loops.add(*_loops(), options={"controller": self.controller})
        self._loops._apply(imports=False, summary=False)
        atexit.register(self._end_of_process)

    def restore(self) -> None:
        """Take the hooks out, and end what still runs."""
        if self._loops is not None:
            atexit.unregister(self._end_of_process)
            self._loops.restore()
            self._loops = None
        self.controller.close()

    @property
    def notes(self) -> tuple[str, ...]:
        """What is in force, for the report; nothing before :meth:`apply`."""
        if self._loops is None:
            return ()
        profiling, stop = self.controller.profiling, self.controller.stop_step
        said = [] if profiling is None else [f"{profiling.total_steps} steps profiled into {profiling.path}"]
        said += [] if stop is None else [f"ends after step {stop}"]
        hooked = ", ".join(self._libraries(PatchStatus.APPLIED)) or "nothing"
        waiting = ", ".join(self._libraries(PatchStatus.PENDING))
        where = f"hooked into {hooked}" + (f"; waits for the import of {waiting}" if waiting else "")
        return (f"training: {', '.join(said)}; {where}",)

    def _libraries(self, status: PatchStatus) -> list[str]:
        results = () if self._loops is None else self._loops.report.results
        return list(dict.fromkeys(result.module for result in results if result.status is status))

    def steps(self, iterable: Iterable[Any]) -> Iterator[Any]:
        """See :meth:`Patcher.steps`."""
        if self._loops is None:
            patcher_logger.warning(
                "steps() counts nothing: call apply() before the loop, so that it is profiled and ended early"
            )
            return iter(iterable)
        return self.controller.steps(iterable)

    def _end_of_process(self) -> None:
        self.controller.close()
        if not self.controller.has_counted and patcher_logger.is_main_process:
            patcher_logger.warning(
                "no training step was seen, so nothing was profiled or ended early; write the loop as"
                " `for batch in patcher.steps(loader):`"
            )


#: What :func:`controller_from` reads: the ``option_names`` of the groups that hook into loops.
CONTROLLER_OPTIONS = ("controller", "brake_step", "exit_code", *Profiling._fields)


def controller_from(options: Mapping[str, Any] | None) -> StepController:
    """The controller of a group's options: ``options["controller"]``, or one of the settings that they hold.

    Groups with equal settings share a controller, so that a program counts its steps once.

    Args:
        options: ``brake_step``, ``exit_code``, and the arguments of :meth:`Patcher.with_profiling`.

    Raises:
        TypeError, ValueError, OSError: as :meth:`Patcher.with_profiling` and its ``apply()`` do.
    """
    given = dict(options or {})
    if "controller" in given:
        controller: StepController = given["controller"]
        return controller
    key = tuple(sorted(given.items(), key=lambda item: item[0]))
    if key not in _shared:
        setup = TrainingSetup("a 1.0 program")
        if "brake_step" in given or "exit_code" in given:
            setup.brake_at(given.pop("brake_step", None), given.pop("exit_code", 0))
        if given:
            setup.with_profiling(**{**Profiling("")._asdict(), **given})
        setup.check()
        _shared[key] = setup.controller
    return _shared[key]


_shared: dict[tuple[Any, ...], StepController] = {}


def open_profiler(profiling: Profiling) -> Profiler:
    """What records here."""
    opener: Any = _profiler_entry_points()[0].load()
    profiler: Profiler = opener(profiling, patcher_logger.rank)
    return profiler


def _profiler_entry_points() -> list[Any]:
    return [entry for entry in entry_points(PROFILERS) if is_importable(entry.name)]


def _loops() -> list[Any]:
    """The groups that hook a controller into the loops of the libraries that are here."""
    found: list[Any] = []
    for entry in entry_points(LOOPS):
        if is_importable(entry.name):
            try:
                loops: Any = entry.load()
                found += loops
            except Exception as error:
                patcher_logger.failed(entry.value, reason=f"does not load: {described_error(error)}")
    return found
