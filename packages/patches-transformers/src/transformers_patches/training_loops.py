"""Counting the steps of ``transformers.Trainer``, by a callback of its own kind."""

from __future__ import annotations

from typing import Any, Callable, Mapping

from patcher_core import AtomicPatch, Patch
from patcher_core.training import CONTROLLER_OPTIONS, StepController, controller_from


class TrainerSteps(Patch):
    """``Trainer.train``: one step is one optimizer step, as in ``max_steps``.

    When the last one has finished the trainer is told to stop, as its own early stopping does, and to save if it saves
    by steps, as after ``max_steps``.
    """

    name = "trainer_steps"
    library = "transformers"
    option_names = CONTROLLER_OPTIONS
    why = "profiling and early stop"
    upstream = "transformers/trainer.py and trainer_callback.py, transformers 4.51 to 5.24"

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        controller = controller_from(options)

        def counted(train: Callable[..., Any]) -> Callable[..., Any]:
            def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
                callback = _step_callback(controller)
                with controller.loop():
                    self.add_callback(callback)
                    try:
                        return train(self, *args, **kwargs)
                    finally:
                        self.remove_callback(callback)

            return wrapped

        return [AtomicPatch("transformers.trainer.Trainer.train", target_wrapper=counted)]


def _step_callback(controller: StepController) -> Any:
    from transformers import TrainerCallback

    class CountSteps(TrainerCallback):  # type: ignore[misc]
        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            controller.begin()

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if controller.step():
                control.should_training_stop = True
                if args.save_strategy == "steps":
                    control.should_save = True

    return CountSteps()


TRAINING_LOOPS = (TrainerSteps,)
