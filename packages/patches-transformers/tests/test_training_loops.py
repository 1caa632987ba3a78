"""Profiling and early stop of transformers.Trainer and of loops with accelerate: real loops, real files."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("accelerate", reason="transformers.Trainer asks for accelerate")
transformers = pytest.importorskip("transformers")

from patcher_core import Patcher, configure_summary  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


@pytest.fixture(autouse=True)
def quiet():
    configure_summary(False)
    torch.set_num_threads(1)
    yield
    configure_summary(True)


class Diary(transformers.TrainerCallback):
    """Writes down what the trainer did."""

    def __init__(self):
        self.losses = []
        self.events = []

    def on_log(self, args, state, control, logs=None, **kwargs):
        self.losses += [logs["loss"]] if "loss" in logs else []

    def on_step_end(self, args, state, control, **kwargs):
        self.events.append("step")

    def on_evaluate(self, args, state, control, **kwargs):
        self.events.append("evaluation")

    def on_save(self, args, state, control, **kwargs):
        self.events.append("save")

    def on_train_end(self, args, state, control, **kwargs):
        self.events.append("train ends")


def make_trainer(folder, **arguments):
    """A trainer of a tiny Llama: 6 steps in an epoch, 3 epochs."""
    transformers.set_seed(3)
    config = transformers.LlamaConfig(
        hidden_size=8,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        vocab_size=32,
    )
    ids = torch.randint(0, 32, (12, 5))
    data = [{"input_ids": row, "labels": row} for row in ids]
    defaults = {
        "output_dir": str(folder),
        "per_device_train_batch_size": 2,
        "num_train_epochs": 3,
        "learning_rate": 0.01,
        "logging_steps": 1,
        "eval_strategy": "epoch",
        "save_strategy": "epoch",
        "report_to": [],
        "use_cpu": True,
        "disable_tqdm": True,
    }
    diary = Diary()
    trainer = transformers.Trainer(
        model=transformers.LlamaForCausalLM(config),
        args=transformers.TrainingArguments(**{**defaults, **arguments}),
        train_dataset=data,
        eval_dataset=data[:4],
        callbacks=[diary],
    )
    return trainer, diary


def test_a_stopped_trainer_trains_as_the_unpatched_one_up_to_the_stop(tmp_path):
    trainer, whole = make_trainer(tmp_path / "whole")
    trainer.train()
    trainer, stopped = make_trainer(tmp_path / "stopped")
    with Patcher().brake_at(9), pytest.raises(SystemExit) as exit:
        trainer.train()
    assert exit.value.code == 0
    assert stopped.losses == whole.losses[:9]
    assert len(whole.losses) == 18


def test_the_trainer_ends_the_training_itself(tmp_path):
    trainer, diary = make_trainer(tmp_path)
    with Patcher().brake_at(9), pytest.raises(SystemExit):
        trainer.train()
    epoch_ends = ["evaluation", "save"]
    assert diary.events == [*["step"] * 6, *epoch_ends, *["step"] * 3, *epoch_ends, "train ends"]
    assert sorted(folder.name for folder in tmp_path.glob("checkpoint-*")) == ["checkpoint-6", "checkpoint-9"]
    state = json.loads((tmp_path / "checkpoint-9" / "trainer_state.json").read_text())
    assert state["global_step"] == 9


def test_a_trainer_that_saves_by_steps_saves_at_the_stop(tmp_path):
    trainer, _ = make_trainer(tmp_path, save_strategy="steps", save_steps=100)
    with Patcher().brake_at(4, exit_code=None):
        output = trainer.train()
    assert output.global_step == 4
    assert [folder.name for folder in tmp_path.glob("checkpoint-*")] == ["checkpoint-4"]


def test_a_step_is_one_of_the_optimizer_when_gradients_are_accumulated(tmp_path):
    trainer, diary = make_trainer(tmp_path, gradient_accumulation_steps=3)
    with Patcher().brake_at(3, exit_code=None):
        output = trainer.train()
    assert output.global_step == 3 and diary.events.count("step") == 3


def test_a_resumed_run_counts_from_its_own_first_step(tmp_path):
    trainer, _ = make_trainer(tmp_path)
    with Patcher().brake_at(6, exit_code=None):
        trainer.train()
    trainer, diary = make_trainer(tmp_path)
    with Patcher().brake_at(4, exit_code=None):
        output = trainer.train(resume_from_checkpoint=str(tmp_path / "checkpoint-6"))
    assert diary.events.count("step") == 4
    assert output.global_step == 10


def test_each_training_of_a_program_counts_for_itself(tmp_path):
    with Patcher().brake_at(2, exit_code=None):
        for run in ("first", "second"):
            trainer, _ = make_trainer(tmp_path / run)
            assert trainer.train().global_step == 2


def test_profiling_writes_a_trace_for_each_cycle_and_then_stops(tmp_path):
    trainer, diary = make_trainer(tmp_path / "run")
    with Patcher().with_profiling(tmp_path / "traces", skip_first=3).brake_at(), pytest.raises(SystemExit):
        trainer.train()
    assert diary.events.count("step") == 3 + (1 + 1 + 1) * 2
    assert recorded_steps(tmp_path / "traces") == ["ProfilerStep#5", "ProfilerStep#8"]
    assert "aten::" in (tmp_path / "traces" / "operators_rank0_2.txt").read_text()


def test_the_callback_of_a_run_goes_with_it(tmp_path):
    trainer, _ = make_trainer(tmp_path)
    before = list(trainer.callback_handler.callbacks)
    with Patcher().brake_at(2, exit_code=None):
        trainer.train()
    assert trainer.callback_handler.callbacks == before


def recorded_steps(folder):
    """The steps in the traces of torch.profiler, which counts from 0."""
    found = []
    for trace in sorted(folder.glob("rank0.*.pt.trace.json")):
        events = json.loads(trace.read_text())["traceEvents"]
        found += sorted({e["name"] for e in events if e.get("name", "").startswith("ProfilerStep#")})
    return found


# ---------------------------------------------------------------------- accelerate
def trained_with_accelerate(epochs=3, accumulate=1):
    """The losses and the number of scheduler steps of a loop as accelerate's examples write it."""
    from accelerate import Accelerator
    from accelerate.utils import GradientAccumulationPlugin

    plugin = GradientAccumulationPlugin(num_steps=accumulate, sync_with_dataloader=False)
    accelerator = Accelerator(cpu=True, gradient_accumulation_plugin=plugin)
    torch.manual_seed(2)
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader([torch.randn(3) for _ in range(12)], batch_size=2)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    losses, schedule = [], []
    try:
        for _ in range(epochs):
            for batch in loader:
                with accelerator.accumulate(model):
                    loss = model(batch).pow(2).mean()
                    accelerator.backward(loss)
                    optimizer.step()
                    optimizer.zero_grad()
                losses.append(loss.item())
                schedule.append("stepped")
    finally:
        accelerator.free_memory()
        trained_with_accelerate.last = losses, schedule
    return losses, schedule


@pytest.mark.parametrize("stop", [4, 6, 8])
def test_a_loop_with_accelerate_ends_after_the_whole_step(stop):
    whole, _ = trained_with_accelerate()
    with Patcher().brake_at(stop), pytest.raises(SystemExit) as exit:
        trained_with_accelerate()
    assert exit.value.code == 0
    assert trained_with_accelerate.last == (whole[:stop], ["stepped"] * stop)


def test_with_accelerate_a_step_is_one_of_the_optimizer():
    with Patcher().brake_at(3), pytest.raises(SystemExit):
        trained_with_accelerate(accumulate=2)
    losses, _ = trained_with_accelerate.last
    assert len(losses) == 6


def test_a_loop_with_accelerate_is_profiled(tmp_path):
    with Patcher().with_profiling(tmp_path, skip_first=1, repeat=0).brake_at(), pytest.raises(SystemExit):
        trained_with_accelerate()
    assert recorded_steps(tmp_path) == ["ProfilerStep#3"]


# The program ends by os._exit: while an interpreter shuts down, the gloo threads of torch 2.13 can abort its process
# ("terminate called without an active exception"), with or without a patcher.
DISTRIBUTED = """
import json, os
import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration
from patcher_core import Patcher

Patcher().brake_at(3).apply()
configuration = DataLoaderConfiguration(dispatch_batches=True)
accelerator = Accelerator(cpu=True, dataloader_config=configuration)
model = torch.nn.Linear(3, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader([torch.randn(3) for _ in range(40)], batch_size=2)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
steps = 0
try:
    for batch in loader:
        accelerator.backward(model(batch).pow(2).mean())
        optimizer.step()
        optimizer.zero_grad()
        steps += 1
except SystemExit as stop:
    with open(f"rank{accelerator.process_index}.json", "w") as file:
        json.dump([steps, stop.code], file)
    accelerator.end_training()
    os._exit(stop.code)
"""


def test_ranks_whose_batches_are_dispatched_by_the_first_stop_together(tmp_path):
    (tmp_path / "program.py").write_text(DISTRIBUTED)
    search = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", "program.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": search, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert [json.loads((tmp_path / f"rank{rank}.json").read_text()) for rank in (0, 1)] == [[3, 0]] * 2
