"""What a user of :class:`Patcher` chooses for training: profiling and early stop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterable, TypeVar

if TYPE_CHECKING:
    import os

    from .training import TrainingSetup

_Chooser = TypeVar("_Chooser", bound="TrainingOptions")


class TrainingOptions:
    """The part of :class:`Patcher` that knows of training; costs nothing where it is not used."""

    name: str
    _is_applied: bool
    _training: TrainingSetup | None = None

    def with_profiling(
        self: _Chooser,
        path: str | os.PathLike[str],
        level: int = 0,
        skip_first: int = 20,
        wait: int = 1,
        warmup: int = 1,
        active: int = 1,
        repeat: int = 1,
    ) -> _Chooser:
        """Profile the training loop, whichever it is: torch_npu.profiler on an NPU, torch.profiler elsewhere.

        The steps counted are ``skip_first + (wait + warmup + active) * (repeat + 1)``; at the end of each cycle a trace
        for TensorBoard and a table of the operators that took longest are written, by every rank.

        Args:
            path: folder for them; created by ``apply()``, which raises OSError where it cannot be written to.
            level: 0 records the device alone (where there is none, the CPU), 1 the CPU as well, 2 call stacks too.
            skip_first: steps before the first cycle. wait, warmup, active: steps of each cycle that are not recorded,
                recorded and thrown away, recorded and written.
            repeat: further cycles after the first; 0: not repeated.

        Raises:
            TypeError, ValueError: naming the argument, or a character of the path that the NPU tools reject.
        """
        counts = {
            "skip_first": skip_first,
            "wait": wait,
            "warmup": warmup,
            "active": active,
            "repeat": repeat,
        }
        self._training_setup().with_profiling(path, level, **counts)
        return self._with_training()

    def brake_at(self: _Chooser, step: int | None = None, *, exit_code: int | None = 0) -> _Chooser:
        """End the training after ``step`` steps of this run, also of a resumed one.

        The loop of a framework ends as after its last step, with its checkpoint, validation and after_run hooks.

        Args:
            step: None ends it when :meth:`with_profiling` has written its last trace.
            exit_code: the program ends after the training (SystemExit) with this code; None lets it go on.
        """
        self._training_setup().brake_at(step, exit_code)
        return self._with_training()

    def steps(self, iterable: Iterable[Any]) -> Iterable[Any]:
        """The items of ``iterable``, each a step for profiling and early stop: ``for batch in patcher.steps(loader):``.

        For loops that no patch set knows, which are otherwise counted by a hook on ``optimizer.step``. Inside the loop
        of a framework, and where neither profiling nor early stop was asked for, it counts nothing.
        """
        return iter(iterable) if self._training is None else self._training.steps(iterable)

    # ------------------------------------------------------------------ inside
    def _training_setup(self) -> TrainingSetup:
        if self._training is None:
            from .training import TrainingSetup

            self._training = TrainingSetup(self.name)
        return self._training

    def _with_training(self: _Chooser) -> _Chooser:
        """Let a choice that comes after apply() act at once."""
        if self._is_applied and self._training is not None:
            self._training.check()
            self._training.apply()
        return self
