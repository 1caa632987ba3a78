"""Training loops without a framework: the hook on every optimizer's ``step()``, and accelerate's loaders."""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any, Callable, Iterator, Mapping

from patcher_core import AtomicPatch, Patch, patcher_logger
from patcher_core.training import CONTROLLER_OPTIONS, OPTIMIZER, StepController, controller_from

if TYPE_CHECKING:
    from torch.optim import Optimizer

_numbers = itertools.count(1)


class OptimizerSteps(Patch):
    """Counts the steps of the first optimizer that steps, and ends the program when the next batch is asked for.

    The optimizer's post hook comes in the middle of the user's loop body; what follows it (schedulers, logging,
    checkpoints) belongs to the step. So the loop is left where a ``DataLoader`` is asked for a batch or, in loops that
    use none, where the optimizer is to step again.
    """

    name = "optimizer_steps"
    library = "torch"
    requires = ("torch>=2.1",)
    option_names = CONTROLLER_OPTIONS
    why = "profiling and early stop of a loop that is not a framework's; there is nothing else to hook into"
    upstream = "torch/optim/optimizer.py and torch/utils/data/dataloader.py, torch 2.1 to 2.15"

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        loop = OptimizerLoop(controller_from(options))
        key = f"patcher_steps_{next(_numbers)}"
        hooks = "torch.optim.optimizer._global_optimizer_{}_hooks." + key
        return [
            AtomicPatch(hooks.format("pre"), loop.before_step, create=True),
            AtomicPatch(hooks.format("post"), loop.after_step, create=True),
            AtomicPatch(
                "torch.utils.data.dataloader._BaseDataLoaderIter.__next__",
                target_wrapper=loop.leaving_before,
            ),
        ]


class OptimizerLoop:
    """A loop of which only the optimizer's steps can be seen."""

    def __init__(self, controller: StepController) -> None:
        self._controller = controller
        self._optimizer: Callable[[], Any] = lambda: None
        self._runs_in: tuple[int, int] | None = None
        self._has_told = False

    def before_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        """Pre hook of every optimizer."""
        if self._is_counted(optimizer):
            self._leave_if_stopped()

    def after_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        """Post hook of every optimizer."""
        if self._is_counted(optimizer):
            self._runs_in = _here()
            if self._controller.step() and not self._controller.ends_program:
                self._tell_that_it_goes_on()

    def leaving_before(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """``function``, before which a stopped loop is left."""

        def leaving(*args: Any, **kwargs: Any) -> Any:
            # A SystemExit in a thread that prefetches would end that thread, and the loop would wait for ever.
            if self._controller.has_stopped and self._runs_in == _here():
                self._leave_if_stopped()
            return function(*args, **kwargs)

        return leaving

    def _tell_that_it_goes_on(self) -> None:
        if not self._has_told:
            self._has_told = True
            patcher_logger.warning(
                "brake_at(exit_code=None) cannot end a loop of which only the optimizer is seen, so the training goes"
                " on; write the loop as `for batch in patcher.steps(loader):`"
            )

    def _is_counted(self, optimizer: Optimizer) -> bool:
        if self._optimizer() is None:
            self._optimizer = weakref.ref(optimizer)
        return self._optimizer() is optimizer and self._controller.count(OPTIMIZER)

    def _leave_if_stopped(self) -> None:
        if self._controller.has_stopped and self._controller.count(OPTIMIZER):
            self._controller.leave()


class AccelerateLoaders(Patch):
    """Ends a loop over a loader of accelerate between two steps, on all ranks alike.

    The steps are counted by :class:`OptimizerSteps`: accelerate's optimizer lets the real one step when gradients are
    synchronised. Its loaders fetch ahead, and one that dispatches fetches on the first rank only: left there, the
    other ranks would wait for ever.
    """

    name = "accelerate_loaders"
    library = "accelerate"
    option_names = CONTROLLER_OPTIONS
    why = "a loader that fetches on rank 0 and is left there leaves the other ranks waiting"
    upstream = "accelerate/data_loader.py, accelerate 1.15"

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        controller = controller_from(options)

        def leaving(iterate: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
            def __iter__(self: Any) -> Iterator[Any]:
                for batch in iterate(self):
                    yield batch
                    if controller.has_stopped and controller.count(OPTIMIZER):
                        controller.leave()

            return __iter__

        return [
            AtomicPatch(f"accelerate.data_loader.{loader}.__iter__", target_wrapper=leaving)
            for loader in ("DataLoaderShard", "DataLoaderDispatcher")
        ]


def _here() -> tuple[int, int]:
    return os.getpid(), threading.get_ident()


TORCH_LOOPS = (OptimizerSteps,)
ACCELERATE_LOOPS = (AccelerateLoaders,)
