"""Profiling and early stop of mmengine's training loops: real runners, real files."""

from __future__ import annotations

import json
import warnings

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("mmengine.runner", reason="mmengine is not installed here")

from mmengine.evaluator import BaseMetric  # noqa: E402
from mmengine.hooks import Hook  # noqa: E402
from mmengine.model import BaseModel  # noqa: E402
from mmengine.runner import Runner  # noqa: E402

from patcher_core import Patcher, configure_summary  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

BATCHES = 6  #: in an epoch
LOOPS = {"epochs": {"by_epoch": True, "max_epochs": 3}, "iterations": {"by_epoch": False, "max_iters": 18}}


@pytest.fixture(autouse=True)
def quiet():
    configure_summary(False)
    torch.set_num_threads(1)
    yield
    configure_summary(True)


class Model(BaseModel):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)

    def forward(self, inputs, mode="tensor"):
        output = self.linear(inputs)
        return {"loss": output.pow(2).mean()} if mode == "loss" else output


class Error(BaseMetric):
    def process(self, data_batch, data_samples):
        self.results += [sample.abs().sum().item() for sample in data_samples]

    def compute_metrics(self, results):
        return {"error": sum(results)}


class Diary(Hook):
    """Writes down what the loop did."""

    def __init__(self):
        self.losses = []
        self.events = []

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None):
        self.losses.append(outputs["loss"].item())

    def before_train_iter(self, runner, batch_idx, data_batch=None):
        self.events.append("iteration")

    def after_train_epoch(self, runner):
        self.events.append("epoch ends")

    def before_val(self, runner):
        self.events.append("validation")

    def after_train(self, runner):
        self.events.append("after_train")

    def after_run(self, runner):
        self.events.append("after_run")


def make_runner(work_dir, loop, resume_from=None, hooks=()):
    torch.manual_seed(5)
    # mmengine sleeps for two seconds before it reads data a second time in a loop over iterations.
    batches = BATCHES if loop["by_epoch"] else loop["max_iters"]
    data = [{"inputs": torch.randn(3)} for _ in range(2 * batches)]
    diary = Diary()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runner = Runner(
            model=Model(),
            work_dir=str(work_dir),
            train_dataloader=torch.utils.data.DataLoader(data, batch_size=2),
            val_dataloader=torch.utils.data.DataLoader(data[:4], batch_size=2),
            val_evaluator=[Error()],
            val_cfg={},
            train_cfg={**loop, "val_interval": 1 if loop["by_epoch"] else BATCHES},
            optim_wrapper={"optimizer": {"type": "SGD", "lr": 0.1, "momentum": 0.9}},
            param_scheduler={"type": "CosineAnnealingLR", "T_max": 18, "by_epoch": False},
            custom_hooks=[diary, {"type": "EMAHook"}, *hooks],
            default_hooks={
                "checkpoint": {"type": "CheckpointHook", "interval": 100, "by_epoch": loop["by_epoch"]},
                "logger": {"type": "LoggerHook", "interval": 1},
            },
            load_from=resume_from,
            resume=resume_from is not None,
            # mmengine keeps one visualizer for each name and second.
            experiment_name=f"{work_dir.parent.name}-{work_dir.name}",
        )
    return runner, diary


def logged_losses(work_dir):
    """What the logging hook wrote to disk."""
    (log,) = work_dir.glob("*/vis_data/scalars.json")
    records = [json.loads(line) for line in log.read_text().splitlines()]
    return [record["loss"] for record in records if "loss" in record]


@pytest.fixture(params=LOOPS)
def loop(request):
    return LOOPS[request.param]


def test_a_stopped_loop_trains_as_the_unpatched_one_up_to_the_stop(loop, tmp_path):
    runner, whole = make_runner(tmp_path / "whole", loop)
    runner.train()
    runner, stopped = make_runner(tmp_path / "stopped", loop)
    with Patcher().brake_at(9), pytest.raises(SystemExit) as exit:
        runner.train()
    assert exit.value.code == 0
    assert stopped.losses == whole.losses[:9]
    assert len(whole.losses) == 18
    assert logged_losses(tmp_path / "stopped") == logged_losses(tmp_path / "whole")[:9]


def test_the_framework_ends_the_training_itself(loop, tmp_path):
    runner, diary = make_runner(tmp_path, loop)
    with Patcher().brake_at(9), pytest.raises(SystemExit):
        runner.train()
    if loop["by_epoch"]:
        whole, part = ["iteration"] * 6 + ["epoch ends", "validation"], ["iteration"] * 3
        assert diary.events == [*whole, *part, "epoch ends", "validation", "after_train", "after_run"]
    else:  # whether it validates at the end is another thing in mmengine 0.10.0 than in 0.10.7
        upstream, expected = make_runner(tmp_path / "upstream", {**loop, "max_iters": 9})
        upstream.train()
        assert diary.events == expected.events and len(expected.losses) == 9
    (name,) = [file.name for file in tmp_path.glob("*.pth")]
    checkpoint = torch.load(tmp_path / name, weights_only=False)
    assert name == ("epoch_2.pth" if loop["by_epoch"] else "iter_9.pth")
    assert checkpoint["meta"]["iter"] == 9
    assert "ema_state_dict" in checkpoint
    assert (tmp_path / "last_checkpoint").read_text().endswith(name)


def test_the_weights_are_those_of_the_unpatched_loop_at_that_step(loop, tmp_path):
    weights = []

    class Snapshot(Hook):
        priority = "LOWEST"

        def after_train_iter(self, runner, **kwargs):
            weights.append(runner.model.linear.weight.detach().clone())

    make_runner(tmp_path / "whole", loop, hooks=[Snapshot()])[0].train()
    runner, _ = make_runner(tmp_path / "stopped", loop)
    with Patcher().brake_at(7, exit_code=None):
        model = runner.train()
    assert torch.equal(model.linear.weight, weights[6])


def test_a_resumed_run_counts_from_its_own_first_step(loop, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")  # mmengine 0.10.7 does not ask for it itself
    runner, _ = make_runner(tmp_path / "first", loop)
    with Patcher().brake_at(6, exit_code=None):
        runner.train()
    (checkpoint,) = (tmp_path / "first").glob("*.pth")
    runner, diary = make_runner(tmp_path / "second", loop, resume_from=str(checkpoint))
    with Patcher().brake_at(4, exit_code=None):
        runner.train()
    assert len(diary.losses) == 4
    assert runner.iter == 10


def test_the_exit_code_can_be_chosen(tmp_path):
    runner, _ = make_runner(tmp_path, LOOPS["epochs"])
    with Patcher().brake_at(2, exit_code=7), pytest.raises(SystemExit) as exit:
        runner.train()
    assert exit.value.code == 7


def test_the_code_of_the_user_around_the_training_runs(tmp_path):
    runner, _ = make_runner(tmp_path, LOOPS["epochs"])
    seen = []
    with Patcher().brake_at(2), pytest.raises(SystemExit):
        try:
            runner.train()
        except Exception:
            seen.append("except")
        finally:
            seen.append("finally")
    assert seen == ["finally"]


def test_an_error_in_training_comes_out_as_it_is(loop, tmp_path):
    class Failing(Hook):
        def after_train_iter(self, runner, **kwargs):
            if runner.iter == 1:
                raise ValueError("bad batch")

    runner, _ = make_runner(tmp_path, loop, hooks=[Failing()])
    with Patcher().with_profiling(tmp_path / "traces").brake_at(), pytest.raises(
        ValueError, match="bad batch"
    ):
        runner.train()
    assert not any("Steps" in type(hook).__name__ for hook in runner.hooks)


def test_profiling_writes_a_trace_for_each_cycle_and_then_stops(loop, tmp_path):
    runner, diary = make_runner(tmp_path / "run", loop)
    patcher = Patcher().with_profiling(tmp_path / "traces", skip_first=3, repeat=1).brake_at()
    with patcher, pytest.raises(SystemExit):
        runner.train()
    assert len(diary.losses) == 3 + (1 + 1 + 1) * 2
    recorded = []
    for trace in sorted((tmp_path / "traces").glob("rank0.*.pt.trace.json")):
        events = json.loads(trace.read_text())["traceEvents"]
        recorded += sorted({e["name"] for e in events if e.get("name", "").startswith("ProfilerStep#")})
        assert any(e.get("name") == "aten::addmm" for e in events)
    assert recorded == ["ProfilerStep#5", "ProfilerStep#8"]
    for cycle in (1, 2):
        assert "aten::" in (tmp_path / "traces" / f"operators_rank0_{cycle}.txt").read_text()


def test_profiling_alone_changes_nothing_of_the_training(loop, tmp_path):
    runner, whole = make_runner(tmp_path / "whole", loop)
    runner.train()
    runner, profiled = make_runner(tmp_path / "profiled", loop)
    with Patcher().with_profiling(tmp_path / "traces", level=2, skip_first=0, repeat=0):
        runner.train()
    assert profiled.losses == whole.losses
    assert profiled.events == whole.events
    assert len(list((tmp_path / "traces").glob("*.json"))) == 1


def test_after_restore_the_loop_is_upstreams_again(loop, tmp_path):
    Patcher().brake_at(2).apply().restore()
    runner, diary = make_runner(tmp_path, loop)
    runner.train()
    assert len(diary.losses) == 18
