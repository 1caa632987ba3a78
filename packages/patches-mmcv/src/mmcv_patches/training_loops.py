"""Counting the steps of the runners of mmcv 1.x and of the training loops of mmengine.

Two hooks of the framework's own kind are registered for the time of a run. One comes after the optimizer and before
checkpoints and EMA; in the last step it moves the loop's end to this step, so that everything that belongs to the end
of a training (last checkpoint, validation, ``after_run``) happens by itself. The other one comes last and counts.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from typing import Any, Callable, Iterator, Mapping

from patcher_core import AtomicPatch, Patch
from patcher_core.training import CONTROLLER_OPTIONS, StepController, controller_from

from .stream import MMCV_1

#: After the optimizer hook (40 in mmcv 1.x), before EMA (49) and checkpoints (50).
_AFTER_OPTIMIZER = 45


class EpochBasedRunnerSteps(Patch):
    """mmcv 1.x ``EpochBasedRunner``: one step is one training iteration."""

    name = "mmcv_epoch_based_runner"
    library = "mmcv"
    requires = MMCV_1
    option_names = CONTROLLER_OPTIONS
    why = "profiling and early stop"
    upstream = "mmcv/runner/epoch_based_runner.py, mmcv 1.4.0 to 1.7.2"

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        controller = controller_from(options)

        def ending_early(train: Callable[..., Any]) -> Callable[..., Any]:
            def wrapped(self: Any, data_loader: Any, **kwargs: Any) -> Any:
                return train(self, controller.stoppable(data_loader), **kwargs)

            return wrapped

        runner = "mmcv.runner.epoch_based_runner.EpochBasedRunner"
        return [
            AtomicPatch(f"{runner}.run", target_wrapper=functools.partial(_counted_run, controller, True)),
            AtomicPatch(f"{runner}.train", target_wrapper=ending_early),
        ]


class IterBasedRunnerSteps(Patch):
    """mmcv 1.x ``IterBasedRunner``: one step is one training iteration."""

    name = "mmcv_iter_based_runner"
    library = "mmcv"
    requires = MMCV_1
    option_names = CONTROLLER_OPTIONS
    why = "profiling and early stop"
    upstream = "mmcv/runner/iter_based_runner.py, mmcv 1.4.0 to 1.7.2"

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        run = functools.partial(_counted_run, controller_from(options), False)
        return [AtomicPatch("mmcv.runner.iter_based_runner.IterBasedRunner.run", target_wrapper=run)]


def _counted_run(controller: StepController, by_epoch: bool, run: Callable[..., Any]) -> Callable[..., Any]:
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        with controller.loop(), _hooks(
            self, "mmcv.runner", controller, functools.partial(_end_now, self, by_epoch)
        ):
            controller.begin()
            return run(self, *args, **kwargs)

    return wrapped


class EpochBasedTrainLoopSteps(Patch):
    """mmengine ``EpochBasedTrainLoop``: one step is one training iteration."""

    name = "mmengine_epoch_based_train_loop"
    library = "mmengine"
    option_names = CONTROLLER_OPTIONS
    why = "profiling and early stop"
    upstream = "mmengine/runner/loops.py, mmengine 0.10.7"

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        controller = controller_from(options)

        def ending_early(run_epoch: Callable[..., Any]) -> Callable[..., Any]:
            def wrapped(self: Any) -> Any:
                loader = self.dataloader
                self.dataloader = controller.stoppable(loader)
                try:
                    return run_epoch(self)
                finally:
                    self.dataloader = loader

            return wrapped

        loop = "mmengine.runner.loops.EpochBasedTrainLoop"
        return [
            AtomicPatch(f"{loop}.run", target_wrapper=functools.partial(_counted_loop, controller, True)),
            AtomicPatch(f"{loop}.run_epoch", target_wrapper=ending_early),
            *_ends_with_the_runner(controller),
        ]


class IterBasedTrainLoopSteps(Patch):
    """mmengine ``IterBasedTrainLoop``: one step is one training iteration."""

    name = "mmengine_iter_based_train_loop"
    library = "mmengine"
    option_names = CONTROLLER_OPTIONS
    why = "profiling and early stop"
    upstream = "mmengine/runner/loops.py, mmengine 0.10.7"

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        controller = controller_from(options)
        run = functools.partial(_counted_loop, controller, False)
        return [
            AtomicPatch("mmengine.runner.loops.IterBasedTrainLoop.run", target_wrapper=run),
            *_ends_with_the_runner(controller),
        ]


def _counted_loop(controller: StepController, by_epoch: bool, run: Callable[..., Any]) -> Callable[..., Any]:
    def wrapped(self: Any) -> Any:
        with controller.loop(), _hooks(
            self.runner, "mmengine.hooks", controller, functools.partial(_end_now, self, by_epoch)
        ):
            controller.begin()
            return run(self)

    return wrapped


def _ends_with_the_runner(controller: StepController) -> list[AtomicPatch]:
    """A run ends where the runner's ``train()`` does, which calls ``after_run`` when the loop has ended."""

    within = _within_loop(controller)
    runners = ("mmengine.runner.runner.Runner", "mmengine.runner._flexible_runner.FlexibleRunner")
    return [AtomicPatch(f"{runner}.train", target_wrapper=within) for runner in runners]


@functools.lru_cache(maxsize=8)
def _within_loop(controller: StepController) -> Callable[..., Any]:
    """One wrapper for both loops, so that the runner is wrapped once."""

    def within_loop(train: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(self: Any) -> Any:
            with controller.loop():
                return train(self)

        return wrapped

    return within_loop


def _end_now(loop: Any, by_epoch: bool) -> None:
    """Let a runner of mmcv 1.x, or a loop of mmengine, end with the step that it is in."""
    loop._max_iters = loop._iter + 1
    if by_epoch:
        loop._max_epochs = loop._epoch + 1


@contextlib.contextmanager
def _hooks(runner: Any, home: str, controller: StepController, end_now: Callable[[], None]) -> Iterator[None]:
    """The two hooks, registered for the time of a run."""
    base: Any = importlib.import_module(home).Hook

    class EndAfterLastStep(base):  # type: ignore[misc]
        def after_train_iter(self, runner: Any, *args: Any, **kwargs: Any) -> None:
            if controller.is_last_step:
                end_now()

    class CountSteps(base):  # type: ignore[misc]
        def after_train_iter(self, runner: Any, *args: Any, **kwargs: Any) -> None:
            controller.step()

    registered = (EndAfterLastStep(), CountSteps())
    for hook, priority in zip(registered, (_AFTER_OPTIMIZER, "LOWEST")):
        runner.register_hook(hook, priority)
    try:
        yield
    finally:
        runner._hooks[:] = [hook for hook in runner._hooks if hook not in registered]


def build_mmcv_epoch_runner_patch(options: Mapping[str, Any] | None = None) -> Patch:
    """The 1.0 name of :class:`EpochBasedRunnerSteps`; options as in :func:`patcher_core.training.controller_from`."""
    return EpochBasedRunnerSteps({"controller": controller_from(options)})


def build_mmcv_iter_runner_patch(options: Mapping[str, Any] | None = None) -> Patch:
    """The 1.0 name of :class:`IterBasedRunnerSteps`; options as in :func:`patcher_core.training.controller_from`."""
    return IterBasedRunnerSteps({"controller": controller_from(options)})


def build_mmengine_epoch_train_loop_patch(options: Mapping[str, Any] | None = None) -> Patch:
    """The 1.0 name of :class:`EpochBasedTrainLoopSteps`; options as in
    :func:`patcher_core.training.controller_from`."""
    return EpochBasedTrainLoopSteps({"controller": controller_from(options)})


def build_mmengine_iter_train_loop_patch(options: Mapping[str, Any] | None = None) -> Patch:
    """The 1.0 name of :class:`IterBasedTrainLoopSteps`; options as in
    :func:`patcher_core.training.controller_from`."""
    return IterBasedTrainLoopSteps({"controller": controller_from(options)})


MMCV_LOOPS = (EpochBasedRunnerSteps, IterBasedRunnerSteps)
MMENGINE_LOOPS = (EpochBasedTrainLoopSteps, IterBasedTrainLoopSteps)
