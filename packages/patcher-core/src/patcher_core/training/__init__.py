"""Profiling and early stop of training loops: counting steps, and what is due before and after each.

No torch in here. What counts the steps of a framework's loop, and what records them, comes from patch sets:

* ``patcher.training_loops``: under the import root of a library, a sequence of the groups that hook a
  :class:`StepController` (``options["controller"]``, so ``option_names`` must have it) into the loops of that library;
* ``patcher.profilers``: under the import root of a library, ``open_profiler(profiling, rank) -> Profiler``.
"""

from __future__ import annotations

from .controller import OPTIMIZER, StepController
from .loaders import StoppableLoader
from .settings import Brake, Profiler, Profiling
from .setup import CONTROLLER_OPTIONS, TrainingSetup, controller_from

__all__ = [
    "CONTROLLER_OPTIONS",
    "OPTIMIZER",
    "Brake",
    "Profiler",
    "Profiling",
    "StepController",
    "StoppableLoader",
    "TrainingSetup",
    "controller_from",
]
