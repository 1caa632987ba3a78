"""The controller of training steps, without a framework: who counts, what is due after a step, how a run ends."""

from __future__ import annotations

import logging

import pytest

from patcher_core import Patcher
from patcher_core.training import Brake, Profiling, StepController


class Recorder:
    """A profiler that writes down how it was driven."""

    def __init__(self, fails_at=""):
        self.calls = []
        self.fails_at = fails_at

    def _note(self, call):
        self.calls.append(call)
        if call == self.fails_at:
            raise OSError("device lost")

    def start(self):
        self._note("start")

    def step(self):
        self._note("step")

    def stop(self):
        self._note("stop")


def make_controller(stop=None, exit_code=0, recorder=None, **counts):
    controller = StepController(lambda profiling: recorder)
    if recorder is not None:
        defaults = {"skip_first": 1, "wait": 0, "warmup": 0, "active": 1, "repeat": 0}
        controller.profiling = Profiling("traces", **{**defaults, **counts})
    if stop is not None:
        controller.brake = Brake(stop, exit_code)
    return controller


def test_it_needs_no_torch(run_python):
    run_python(
        """
        import sys
        from patcher_core.training import StepController
        assert "torch" not in sys.modules and "numpy" not in sys.modules
        """
    )


def test_a_program_that_asks_for_neither_does_not_load_it(run_python):
    run_python(
        """
        import sys
        from patcher_core import Patcher
        patcher = Patcher().apply()
        assert list(patcher.steps([1, 2])) == [1, 2]
        patcher.restore()
        assert "patcher_core.training" not in sys.modules
        """
    )


def test_a_program_ends_when_the_outermost_loop_is_left():
    controller, reached = make_controller(stop=2, exit_code=4), []
    with pytest.raises(SystemExit) as exit, controller.loop():
        with controller.loop():
            while not controller.step():
                pass
        reached.append("after the inner loop")
    assert exit.value.code == 4 and reached == ["after the inner loop"]


def test_the_last_step_is_known_before_it_has_finished():
    controller, seen = make_controller(stop=3, exit_code=None), []
    with controller.loop():
        for _ in range(3):
            seen.append((controller.is_last_step, controller.has_stopped))
            controller.step()
        seen.append((controller.is_last_step, controller.has_stopped))
    assert seen == [(False, False), (False, False), (True, False), (False, True)]


def test_every_loop_is_a_run_of_its_own():
    controller = make_controller(stop=2, exit_code=None)
    for _ in range(2):
        with controller.loop():
            assert [controller.step() for _ in range(3)] == [False, True, True]
        assert not controller.has_stopped


def test_an_error_in_a_loop_comes_out_as_it_is():
    controller = make_controller(stop=1)
    with pytest.raises(KeyError), controller.loop():
        controller.step()
        raise KeyError("bug")


def test_within_the_loop_of_a_framework_steps_counts_nothing():
    controller = make_controller(stop=2)
    with controller.loop():
        assert list(controller.steps(range(5))) == [0, 1, 2, 3, 4]
        assert not controller.has_stopped


def test_a_stoppable_loader_is_the_loader_but_for_its_end():
    class Loader(list):
        sampler = "random"

    controller = make_controller(stop=2, exit_code=None)
    loader = controller.stoppable(Loader([1, 2, 3]))
    assert isinstance(loader, Loader) and len(loader) == 3 and loader and loader.sampler == "random"
    assert not controller.stoppable(Loader())
    with controller.loop():
        batches = [batch for batch in loader if controller.step() in (True, False)]
    assert batches == [1, 2]


def test_a_profiler_is_driven_from_the_first_step_to_the_last_trace():
    recorder = Recorder()
    controller = make_controller(recorder=recorder)
    with controller.loop():
        controller.begin()
        for _ in range(5):
            controller.step()
    assert recorder.calls == ["start", "step", "step", "stop"]


def test_a_profiler_is_closed_when_the_loop_ends_early():
    recorder = Recorder()
    controller = make_controller(stop=2, exit_code=None, recorder=recorder, skip_first=10)
    with controller.loop():
        while not controller.step():
            pass
        assert recorder.calls == ["start", "step", "stop"]
    assert recorder.calls.count("stop") == 1


@pytest.mark.parametrize("fails_at", ["start", "step", "stop"])
def test_a_profiler_that_fails_does_not_end_the_training(fails_at, messages):
    controller = make_controller(recorder=Recorder(fails_at))
    with controller.loop():
        for _ in range(3):
            controller.step()
    said = messages(logging.WARNING)
    assert "profiling has ended, the training goes on: OSError: device lost" in said


def test_without_a_number_a_run_stops_with_the_last_trace():
    controller = make_controller(stop=None, recorder=Recorder())
    controller.brake = Brake(None, None)
    with controller.loop():
        assert [controller.step() for _ in range(2)] == [False, True]


def test_profiling_where_nothing_can_profile_is_an_error_that_says_what_to_install(run_python):
    run_python(
        """
        from patcher_core import Patcher, PatchError, discovery
        import patcher_core.training.setup as setup
        setup.is_importable = lambda name: False
        try:
            Patcher().with_profiling("traces").apply()
        except PatchError as error:
            assert "install patches-torch" in str(error), error
        else:
            raise AssertionError("no error")
        """
    )


def test_the_report_says_what_is_in_force():
    patcher = Patcher().brake_at(3).apply()
    (note,) = [note for note in patcher.report.notes if note.startswith("training: ")]
    assert note.startswith("training: ends after step 3; hooked into ")
    patcher.restore()
    assert not any(note.startswith("training: ") for note in patcher.report.notes)
