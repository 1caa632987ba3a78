"""Profiling and early stop of loops without a framework: ``patcher.steps()`` and the hook on optimizers."""

from __future__ import annotations

import functools
import importlib
import itertools
import json
import os
import sys
import tempfile
import warnings
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
TORCH = tuple(int(part) for part in torch.__version__.split(".")[:2])
needs_hooks = pytest.mark.skipif(
    TORCH < (2, 1), reason="the set takes torch from 2.1 on; before 2.0 there are no such hooks"
)

from patcher_core import AtomicPatch, Patcher, configure_summary  # noqa: E402
from patcher_core.training import Profiling  # noqa: E402


@pytest.fixture(autouse=True)
def quiet():
    configure_summary(False)
    torch.set_num_threads(1)
    yield
    configure_summary(True)


class Training:
    """A loop as users write them; 6 steps in an epoch."""

    def __init__(self, optimizers=1, workers=0):
        torch.manual_seed(1)
        self.model = torch.nn.Linear(3, 2)
        parameters = list(self.model.parameters())
        self.optimizers = [torch.optim.SGD(parameters, lr=0.1) for _ in range(optimizers)]
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizers[0], 2)
        data = [torch.randn(3) for _ in range(12)]
        self.loader = torch.utils.data.DataLoader(data, batch_size=2, num_workers=workers)
        self.losses = []
        self.validations = 0

    def step(self, batch):
        loss = self.model(batch).pow(2).mean()
        self.optimizers[0].zero_grad()
        loss.backward()
        for optimizer in self.optimizers:
            optimizer.step()
        self.schedule.step()
        self.losses.append(loss.item())

    def run(self, epochs=3, counted=lambda loader: loader):
        for _ in range(epochs):
            for batch in counted(self.loader):
                self.step(batch)
            self.validations += 1
        return self


def step_numbers(trace):
    """The numbers of the steps in a trace of torch.profiler."""
    names = {event.get("name", "") for event in json.loads(trace.read_text())["traceEvents"]}
    return sorted(int(name.partition("#")[2]) for name in names if name.startswith("ProfilerStep#"))


@functools.lru_cache(maxsize=None)
def number_of_the_second_step():
    """The number that torch.profiler itself writes for the second step: 1, but 0 in torch 2.1."""
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder, "trace.json")
        with torch.profiler.profile(
            schedule=torch.profiler.schedule(wait=0, warmup=1, active=1, repeat=1),
            on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(trace)),
        ) as profiler:
            for _ in range(2):
                torch.ones(1).add(1)
                profiler.step()
        (number,) = step_numbers(trace)
    return number


def recorded_steps(folder, rank=0):
    """The steps in the traces of torch.profiler, counted from 0, in the order of the traces."""
    traces = sorted(folder.glob(f"rank{rank}.*.pt.trace.json"))
    return [[number + 1 - number_of_the_second_step() for number in step_numbers(trace)] for trace in traces]


@pytest.fixture(params=["steps", pytest.param("optimizer", marks=needs_hooks)])
def counted(request):
    """How a loop is counted: the loader to iterate, given the patcher and the loader."""
    by_steps = request.param == "steps"
    return lambda patcher: patcher.steps if by_steps else lambda loader: loader


# ---------------------------------------------------------------------- early stop
@pytest.mark.parametrize("stop", [1, 4, 6, 8])
def test_a_loop_ends_after_the_whole_step(counted, stop):
    whole = Training().run()
    stopped = Training()
    with Patcher().brake_at(stop) as patcher, pytest.raises(SystemExit) as exit:
        stopped.run(counted=counted(patcher))
    assert exit.value.code == 0
    assert stopped.losses == whole.losses[:stop]
    assert stopped.schedule.last_epoch == stop
    assert stopped.validations == (stop - 1) // 6


@needs_hooks
def test_a_loop_without_a_loader_makes_no_further_step_of_the_optimizer():
    whole = Training()
    batches = [torch.randn(2, 3) for _ in range(5)]
    for batch in batches[:3]:
        whole.step(batch)
    stopped = Training()
    with Patcher().brake_at(3), pytest.raises(SystemExit):
        for batch in batches:
            stopped.step(batch)
    assert stopped.losses == whole.losses
    assert torch.equal(stopped.model.weight, whole.model.weight)


def test_a_loop_that_ends_by_itself_before_the_stop_is_left_alone(counted):
    training = Training()
    with Patcher().brake_at(100) as patcher:
        training.run(counted=counted(patcher))
    assert len(training.losses) == 18 and training.validations == 3


@needs_hooks
def test_with_several_optimizers_the_first_one_counts():
    training = Training(optimizers=2)
    with Patcher().brake_at(4), pytest.raises(SystemExit):
        training.run()
    assert len(training.losses) == 4


def test_the_program_can_go_on_after_the_loop():
    training = Training()
    with Patcher().brake_at(4, exit_code=None) as patcher:
        training.run(counted=patcher.steps)
    assert len(training.losses) == 4


@needs_hooks
def test_a_loop_that_only_its_optimizer_counts_cannot_be_ended_without_the_program(messages):
    training = Training()
    with Patcher().brake_at(4, exit_code=None):
        training.run()
    assert len(training.losses) == 18
    (warning,) = [text for text in messages("WARNING") if "brake_at" in text]
    assert "patcher.steps(loader)" in warning


def test_the_users_own_handlers_run(counted):
    training, seen = Training(), []
    with Patcher().brake_at(4, exit_code=5) as patcher, pytest.raises(SystemExit) as exit:
        try:
            training.run(counted=counted(patcher))
        except Exception:
            seen.append("except")
        finally:
            seen.append("finally")
    assert seen == ["finally"] and exit.value.code == 5


def test_a_handler_that_catches_everything_gets_no_further_step(counted):
    training, caught = Training(), 0
    with Patcher().brake_at(4) as patcher:
        for _ in range(3):
            try:
                training.run(epochs=1, counted=counted(patcher))
            except:  # noqa: E722 (what users write)
                caught += 1
    assert caught == 3 and len(training.losses) == 4


@needs_hooks
def test_after_restore_the_loop_is_upstreams_again():
    hooks = importlib.import_module("torch.optim.optimizer")._global_optimizer_post_hooks
    before = dict(hooks)
    Patcher().brake_at(2).apply().restore()
    assert dict(hooks) == before
    assert len(Training().run().losses) == 18


@needs_hooks
def test_a_choice_made_after_apply_acts_at_once():
    training = Training()
    with Patcher() as patcher:
        patcher.brake_at(2)
        with pytest.raises(SystemExit):
            training.run()
    assert len(training.losses) == 2


def test_steps_says_so_where_nothing_is_applied(messages):
    training = Training()
    training.run(counted=Patcher().brake_at(2).steps)
    assert len(training.losses) == 18
    assert any("call apply() before the loop" in text for text in messages("WARNING"))


# ---------------------------------------------------------------------- profiling
@pytest.mark.parametrize("repeat", [0, 1, 2])
def test_the_documented_number_of_steps_is_counted(counted, repeat, tmp_path):
    training = Training()
    counts = {"skip_first": 3, "wait": 1, "warmup": 2, "active": 2, "repeat": repeat}
    with Patcher().with_profiling(tmp_path, **counts).brake_at() as patcher, pytest.raises(SystemExit):
        training.run(counted=counted(patcher))
    assert len(training.losses) == 3 + (1 + 2 + 2) * (repeat + 1)
    traces = recorded_steps(tmp_path)
    assert traces == [[first, first + 1] for first in range(6, 6 + 5 * (repeat + 1), 5)]
    tables = sorted(file.name for file in tmp_path.glob("*.txt"))
    assert tables == [f"operators_rank0_{cycle}.txt" for cycle in range(1, repeat + 2)]


def test_a_trace_is_one_for_tensorboard_and_its_table_names_the_operators_that_took_longest(
    counted, tmp_path
):
    with Patcher().with_profiling(tmp_path, skip_first=1, repeat=0) as patcher:
        Training().run(counted=counted(patcher))
    (trace,) = tmp_path.glob("rank0.*.pt.trace.json")
    events = json.loads(trace.read_text())["traceEvents"]
    assert {"aten::addmm", "Optimizer.step#SGD.step"} <= {event.get("name") for event in events}
    table = (tmp_path / "operators_rank0_1.txt").read_text()
    assert "Self CPU" in table and "aten::" in table


@pytest.mark.skipif(
    TORCH < (1, 12), reason="torch 1.11 crashes, also alone, when it writes a trace with stacks"
)
def test_the_levels_add_to_one_another(tmp_path):
    def details(level):
        folder = tmp_path / str(level)
        with Patcher().with_profiling(folder, level=level, skip_first=0, wait=0, repeat=0) as patcher:
            Training().run(epochs=1, counted=patcher.steps)
        (trace,) = folder.glob("*.json")
        text = trace.read_text()
        return "Input Dims" in text, "python_function" in text

    assert [details(level) for level in (0, 1, 2)] == [(False, False), (True, False), (True, True)]


def test_profiling_alone_changes_nothing_of_the_training(counted, tmp_path):
    whole = Training().run()
    profiled = Training()
    with Patcher().with_profiling(tmp_path, skip_first=2) as patcher:
        profiled.run(counted=counted(patcher))
    assert profiled.losses == whole.losses and profiled.validations == 3
    assert len(recorded_steps(tmp_path)) == 2


def test_a_stop_below_the_profiling_total_warns_and_writes_what_was_recorded(messages, tmp_path):
    training = Training()
    with Patcher().with_profiling(tmp_path, skip_first=1, active=4, repeat=0).brake_at(5) as patcher:
        (warning,) = [text for text in messages("WARNING") if "brake_at" in text]
        assert "brake_at(5)" in warning and "7 steps" in warning
        with pytest.raises(SystemExit):
            training.run(counted=patcher.steps)
    assert len(training.losses) == 5
    assert recorded_steps(tmp_path) == [[3, 4]]


def test_a_stop_at_the_profiling_total_does_not_warn(messages, tmp_path):
    with Patcher().with_profiling(tmp_path, skip_first=1, repeat=0).brake_at(4):
        assert not messages("WARNING")


def test_the_wait_shows_progress(messages, tmp_path):
    with Patcher().with_profiling(tmp_path, skip_first=12, repeat=0) as patcher:
        Training().run(counted=patcher.steps)
    said = [text for text in messages("INFO") if text.startswith("profiling: ")]
    assert said[0] == "profiling: 0 of 15 steps; waiting, the next recorded one is step 15"
    assert said[1] == "profiling: 10 of 15 steps; waiting, the next recorded one is step 15"
    assert [text.partition("; ")[2] for text in said[2:4]] == ["warming up", "recording"]


def test_a_training_that_ends_before_the_last_trace_says_so(messages, tmp_path):
    with Patcher().with_profiling(tmp_path) as patcher:
        Training().run(counted=patcher.steps)
    assert any("ended after 18 steps, before the 26" in text for text in messages("WARNING"))


@pytest.mark.parametrize("when, told", [(0, "profiling has ended"), (2, "trace 1 of rank 0")])
def test_a_folder_that_is_lost_later_does_not_end_the_training(when, told, messages, tmp_path):
    training, folder = Training(), tmp_path / "traces"
    with Patcher().with_profiling(folder, skip_first=1, repeat=0) as patcher:
        for step, batch in enumerate(patcher.steps(training.loader)) if when else ():
            if step == when:
                folder.rmdir()
                folder.write_text("in the way")
            training.step(batch)
        if not when:
            folder.rmdir()
            training.run(epochs=1, counted=patcher.steps)
    assert len(training.losses) == 6
    assert any(told in text for text in messages("WARNING"))


# ---------------------------------------------------------------------- settings
@settings(max_examples=200, deadline=None)
@given(*[st.integers(0, 5)] * 3, st.integers(1, 4), st.integers(0, 3))
def test_phases_are_those_of_torchs_schedule_whose_repeat_counts_the_cycles(
    skip_first, wait, warmup, active, repeat
):
    counts = {"skip_first": skip_first, "wait": wait, "warmup": warmup, "active": active}
    profiling = Profiling("traces", repeat=repeat, **counts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a schedule without warmup
        action = torch.profiler.schedule(repeat=repeat + 1, **counts)
    names = {"NONE": "waiting", "WARMUP": "warming up", "RECORD": "recording", "RECORD_AND_SAVE": "recording"}
    total = profiling.total_steps
    assert total == skip_first + (wait + warmup + active) * (repeat + 1)
    assert [profiling.phase(step + 1) for step in range(total)] == [
        names[action(step).name] for step in range(total)
    ]
    assert action(total - 1).name == "RECORD_AND_SAVE" and profiling.phase(total + 1) == "over"


@pytest.mark.parametrize("path", ["tr@ces", "a+b", "emoji\U0001f600", "$HOME"])
def test_a_path_that_the_npu_tools_reject_is_refused_at_once(path, tmp_path):
    with pytest.raises(ValueError, match="which the NPU tools reject"):
        Patcher().with_profiling(tmp_path / path)
    assert list(tmp_path.iterdir()) == []


def test_a_path_of_letters_of_many_kinds_is_taken(tmp_path):
    folder = tmp_path / "追踪 of-run_1.5~"
    with Patcher().with_profiling(folder):
        assert folder.is_dir() and list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_an_error_before_anything_is_patched(tmp_path):
    (tmp_path / "file").write_text("")
    patcher = Patcher().add(AtomicPatch("json.dumps", len)).with_profiling(tmp_path / "file" / "traces")
    with pytest.raises(NotADirectoryError, match=r"cannot write traces: .*name another folder"):
        patcher.apply()
    assert json.dumps is not len and not patcher.is_applied


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_an_error_before_training(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError, match="cannot write traces"):
        Patcher().with_profiling(tmp_path / "traces").apply()


def test_a_full_disk_is_an_error_before_training(run_program, tmp_path):
    (tmp_path / "disk").mkdir()
    mount = "mount -t tmpfs -o size=64k tmpfs disk && exec"
    launcher = ["unshare", "-m", "sh", "-c", f'{mount} "$0" "$@"', sys.executable]
    if run_program("", launcher).returncode:
        pytest.skip("this user may not mount a small disk")
    done = run_program("from patcher_core import Patcher; Patcher().with_profiling('disk').apply()", launcher)
    assert done.returncode == 1
    assert "OSError: [Errno 28] cannot write traces: No space left on device" in done.stderr


@pytest.mark.parametrize(
    "arguments, told",
    [
        ({"level": 3}, "level must be 0 .* got 3"),
        ({"level": True}, "level must be"),
        ({"active": 0}, "active must be at least 1, got 0"),
        ({"repeat": -1}, "repeat must be at least 0, got -1"),
        ({"wait": 1.5}, "wait must be a number of steps, got 1.5"),
        ({"path": ""}, "path must be the folder"),
        ({"path": 3}, "path must be the folder"),
    ],
)
def test_bad_settings_are_named(arguments, told):
    with pytest.raises((TypeError, ValueError), match=told):
        Patcher().with_profiling(**{"path": "traces", **arguments})


@pytest.mark.parametrize(
    "arguments, told",
    [
        ({"step": 0}, "step must be at least 1, got 0"),
        ({"step": "5"}, "step must be a number of steps"),
        ({"step": 5, "exit_code": 256}, "exit_code must be 0 to 255, got 256"),
        ({"step": 5, "exit_code": "0"}, "exit_code must be an int, or None"),
    ],
)
def test_a_bad_brake_is_named(arguments, told):
    with pytest.raises((TypeError, ValueError), match=told):
        Patcher().brake_at(**arguments)


def test_a_brake_without_a_number_needs_profiling():
    patcher = Patcher().brake_at()
    with pytest.raises(ValueError, match="call with_profiling"):
        patcher.apply()
    assert not patcher.is_applied


# ---------------------------------------------------------------------- whole programs
PROGRAM = """
import json, os, sys
import torch
from patcher_core import Patcher

class Data(torch.utils.data.Dataset):
    def __len__(self): return 40
    def __getitem__(self, index): return torch.full((3,), float(index))

def main():
    {setup}
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    loader = torch.utils.data.DataLoader(Data(), batch_size=2, num_workers=2, persistent_workers=True)
    losses = []
    try:
        for epoch in range(2):
            for batch in {batches}:
                loss = model(batch).pow(2).mean()
                optimizer.zero_grad(); loss.backward(); optimizer.step()
                losses.append(loss.item())
    finally:
        with open("losses.json", "w") as file:
            json.dump(losses, file)

if __name__ == "__main__":
    main()
"""


def processes_with(marker):
    """Numbers of the running processes whose environment has that variable."""
    found = []
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{number}/environ", "rb") as stream:
                if marker.encode() in stream.read():
                    found.append(int(number))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("batches", ["patcher.steps(loader)", pytest.param("loader", marks=needs_hooks)])
def test_a_stopped_program_ends_with_its_code_and_leaves_no_worker(run_program, tmp_path, batches):
    setup = "patcher = Patcher().brake_at(5, exit_code=3).apply()"
    done = run_program(PROGRAM.format(setup=setup, batches=batches), PATCHER_TEST_MARKER=str(tmp_path))
    assert done.returncode == 3, done.stderr
    assert len(json.loads((tmp_path / "losses.json").read_text())) == 5
    assert processes_with(f"PATCHER_TEST_MARKER={tmp_path}") == []


def test_a_program_without_steps_is_told_at_its_end(run_program):
    done = run_program("from patcher_core import Patcher; Patcher().brake_at(3).apply()")
    assert done.returncode == 0
    assert "no training step was seen" in done.stderr and "patcher.steps(loader)" in done.stderr


# The program ends by os._exit: while an interpreter shuts down, the gloo threads of torch 2.13 can abort its process
# ("terminate called without an active exception"), with or without a patcher.
DISTRIBUTED = """
import json, os
import torch
import torch.distributed as dist
from patcher_core import Patcher

patcher = Patcher().with_profiling("traces", skip_first=2, repeat=0).brake_at().apply()
dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = [torch.randn(3) for _ in range(40)]
sampler = torch.utils.data.distributed.DistributedSampler(data)
loader = torch.utils.data.DataLoader(data, batch_size=2, sampler=sampler)
steps = 0
try:
    for batch in {batches}:
        optimizer.zero_grad()
        model(batch).pow(2).mean().backward()
        optimizer.step()
        steps += 1
except SystemExit as stop:
    with open(f"rank{{dist.get_rank()}}.json", "w") as file:
        json.dump([steps, stop.code], file)
    dist.destroy_process_group()
    os._exit(stop.code)
"""


@pytest.mark.parametrize("batches", ["patcher.steps(loader)", pytest.param("loader", marks=needs_hooks)])
def test_all_ranks_stop_at_the_same_step_and_write_a_trace_each(run_program, tmp_path, batches):
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    done = run_program(DISTRIBUTED.format(batches=batches), launcher=launcher)
    assert done.returncode == 0, done.stderr
    for rank in (0, 1):
        assert json.loads((tmp_path / f"rank{rank}.json").read_text()) == [5, 0]
        assert recorded_steps(tmp_path / "traces", rank) == [[4]]
        assert (tmp_path / "traces" / f"operators_rank{rank}_1.txt").exists()
    assert done.stderr.count("early stop: this run has made its 5 steps") == 1


# ---------------------------------------------------------------------- precedence of what counts
def test_the_steps_of_optimizers_within_patcher_steps_do_not_count(tmp_path):
    training = Training()
    with Patcher().brake_at(2, exit_code=None) as patcher:
        for batch in patcher.steps(itertools.islice(training.loader, 4)):
            training.step(batch)
            training.step(batch)
    assert len(training.losses) == 4
