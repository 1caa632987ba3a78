"""Profiling and early stop of the runners of mmcv 1.x: real runners, real files."""

from __future__ import annotations

import importlib.util
import json
import logging
import time
import warnings

import pytest

torch = pytest.importorskip("torch")

import mmcv_patches  # noqa: E402
from patcher_core import Patcher, configure_summary  # noqa: E402

if not mmcv_patches.mmcv_version.is_v1x or importlib.util.find_spec("torchvision") is None:
    pytest.skip("mmcv 1.x and the torchvision it asks for are not installed here", allow_module_level=True)

with warnings.catch_warnings():  # upstream's own
    warnings.simplefilter("ignore")
    from mmcv.runner import EMAHook, EvalHook, Hook, build_runner

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

BATCHES = 6  #: in an epoch
RUNNERS = {
    "epochs": {"type": "EpochBasedRunner", "max_epochs": 3},
    "iterations": {"type": "IterBasedRunner", "max_iters": 18},
}

#: A checkpoint of the iteration based runner is saved before mmcv counts the iteration that has just been made.
UNCOUNTED = {"EpochBasedRunner": 0, "IterBasedRunner": 1}


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    # The runners sleep for seconds between epochs, which has nothing to do with what is tested.
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    configure_summary(False)
    torch.set_num_threads(1)
    yield
    configure_summary(True)


class Model(torch.nn.Linear):
    def train_step(self, data, optimizer):
        loss = self(data).pow(2).mean()
        return {"loss": loss, "num_samples": len(data), "log_vars": {"loss": loss.item()}}

    def val_step(self, data, optimizer=None):
        return self.train_step(data, optimizer)


class Diary(Hook):
    """Writes down what the runner did."""

    def __init__(self):
        self.losses = []
        self.events = []
        self.weights = []

    def after_train_iter(self, runner):
        self.losses.append(runner.outputs["loss"].item())
        self.events.append("iteration")
        self.weights.append(runner.model.weight.detach().clone())

    def after_train_epoch(self, runner):
        self.events.append("epoch ends")

    def after_run(self, runner):
        self.events.append("after_run")


class Evaluation(EvalHook):
    def _do_evaluate(self, runner):
        runner.diary.events.append("validation")


class Trained:
    """A runner that has not run yet, and its diary."""

    def __init__(self, work_dir, settings, resume_from=None, hooks=()):
        torch.manual_seed(5)
        by_epoch = settings["type"] == "EpochBasedRunner"
        samples = [torch.randn(3) for _ in range(2 * BATCHES)]
        self.loader = torch.utils.data.DataLoader(samples, batch_size=2)
        model = Model(3, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        logger = logging.getLogger(f"mmcv-1-loops-{work_dir.name}")
        defaults = {"model": model, "optimizer": optimizer, "work_dir": str(work_dir), "logger": logger}
        self.runner = build_runner(settings, {**defaults, "meta": {}})
        self.diary = self.runner.diary = Diary()
        self.runner.register_training_hooks(
            lr_config={"policy": "CosineAnnealing", "min_lr": 0.0, "by_epoch": False},
            optimizer_config={"grad_clip": None},
            checkpoint_config={"interval": 100, "by_epoch": by_epoch},
            log_config={"interval": 1, "hooks": [{"type": "TextLoggerHook"}]},
        )
        self.runner.register_hook(EMAHook(), priority=49)
        evaluation = Evaluation(self.loader, interval=1 if by_epoch else BATCHES, by_epoch=by_epoch)
        self.runner.register_hook(evaluation, priority="LOW")
        for hook in (self.diary, *hooks):
            self.runner.register_hook(hook, priority="LOW")
        if resume_from is not None:
            self.runner.resume(resume_from, map_location="cpu")

    def run(self):
        self.runner.run([self.loader], [("train", 1)])
        return self


def logged_losses(work_dir):
    """What the logging hook wrote to disk."""
    (log,) = work_dir.glob("*.log.json")
    records = [json.loads(line) for line in log.read_text().splitlines()]
    return [record["loss"] for record in records if "loss" in record]


@pytest.fixture(params=RUNNERS)
def settings(request):
    return RUNNERS[request.param]


def test_a_stopped_runner_trains_as_the_unpatched_one_up_to_the_stop(settings, tmp_path):
    whole = Trained(tmp_path / "whole", settings).run()
    stopped = Trained(tmp_path / "stopped", settings)
    with Patcher().brake_at(9), pytest.raises(SystemExit) as exit:
        stopped.run()
    assert exit.value.code == 0
    assert stopped.diary.losses == whole.diary.losses[:9]
    assert len(whole.diary.losses) == 18
    assert all(map(torch.equal, stopped.diary.weights, whole.diary.weights[:9]))
    assert logged_losses(tmp_path / "stopped") == logged_losses(tmp_path / "whole")[:9]


def test_the_framework_ends_the_training_itself(settings, tmp_path):
    stopped = Trained(tmp_path, settings)
    with Patcher().brake_at(9), pytest.raises(SystemExit):
        stopped.run()
    by_epoch = settings["type"] == "EpochBasedRunner"
    events = stopped.diary.events
    assert events.count("iteration") == 9
    assert events.count("validation") == (2 if by_epoch else 1)
    assert events.count("epoch ends") == (2 if by_epoch else 0)
    assert events[-1] == "after_run"
    (file,) = [file for file in tmp_path.glob("*.pth") if not file.is_symlink()]
    assert file.name == ("epoch_2.pth" if by_epoch else "iter_9.pth")
    checkpoint = torch.load(str(file), map_location="cpu")
    assert checkpoint["meta"]["iter"] == 9 - UNCOUNTED[settings["type"]]
    assert any(name.startswith("ema_") for name in checkpoint["state_dict"])


def test_a_resumed_run_counts_from_its_own_first_step(settings, tmp_path):
    first = Trained(tmp_path / "first", settings)
    with Patcher().brake_at(6, exit_code=None):
        first.run()
    second = Trained(tmp_path / "second", settings, resume_from=str(tmp_path / "first" / "latest.pth"))
    with Patcher().brake_at(4, exit_code=None):
        second.run()
    assert len(second.diary.losses) == 4
    assert second.runner.iter == 10 - UNCOUNTED[settings["type"]]


def test_the_rest_of_the_workflow_still_runs(settings, tmp_path):
    class Validated(Hook):
        iterations = 0

        def after_val_iter(self, runner):
            self.iterations += 1

    validated = Validated()
    stopped = Trained(tmp_path, settings, hooks=[validated])
    with Patcher().brake_at(2), pytest.raises(SystemExit):
        stopped.runner.run([stopped.loader, stopped.loader], [("train", 1), ("val", 1)])
    assert len(stopped.diary.losses) == 2
    assert validated.iterations == (BATCHES if settings["type"] == "EpochBasedRunner" else 2)


def test_profiling_writes_a_trace_for_each_cycle_and_then_stops(settings, tmp_path):
    profiled = Trained(tmp_path / "run", settings)
    patcher = Patcher().with_profiling(tmp_path / "traces", skip_first=3, repeat=1).brake_at(exit_code=3)
    with patcher, pytest.raises(SystemExit) as exit:
        profiled.run()
    assert exit.value.code == 3
    assert len(profiled.diary.losses) == 3 + (1 + 1 + 1) * 2
    recorded = []
    for trace in sorted((tmp_path / "traces").glob("rank0.*.pt.trace.json")):
        events = json.loads(trace.read_text())["traceEvents"]
        names = {event.get("name", "") for event in events}
        recorded += [int(name.partition("#")[2]) for name in names if name.startswith("ProfilerStep#")]
    first, second = recorded
    assert (first, second - first) in ((5, 3), (4, 3))  # torch 2.0 to 2.2 number them one lower
    for cycle in (1, 2):
        assert "aten::" in (tmp_path / "traces" / f"operators_rank0_{cycle}.txt").read_text()


def test_profiling_alone_changes_nothing_of_the_training(settings, tmp_path):
    whole = Trained(tmp_path / "whole", settings).run()
    profiled = Trained(tmp_path / "profiled", settings)
    with Patcher().with_profiling(tmp_path / "traces", skip_first=0, repeat=0):
        profiled.run()
    assert profiled.diary.losses == whole.diary.losses
    assert profiled.diary.events == whole.diary.events


def test_the_hooks_of_a_run_go_with_it(settings, tmp_path):
    class Failing(Hook):
        def after_train_iter(self, runner):
            if runner.iter == 1:
                raise ValueError("bad batch")

    failing = Trained(tmp_path, settings, hooks=[Failing()])
    before = list(failing.runner.hooks)
    with Patcher().brake_at(5), pytest.raises(ValueError, match="bad batch"):
        failing.run()
    assert failing.runner.hooks == before


@pytest.mark.parametrize("kind", RUNNERS)
def test_the_builders_of_the_1_0_api_make_the_same_patches(kind, tmp_path):
    from mmcv_patches.training_loops import build_mmcv_epoch_runner_patch, build_mmcv_iter_runner_patch

    options = {"brake_step": 5, "exit_code": None}
    patches = [build_mmcv_epoch_runner_patch(options), build_mmcv_iter_runner_patch(options)]
    stopped = Trained(tmp_path, RUNNERS[kind])
    with Patcher().add(*patches):
        stopped.run()
    assert len(stopped.diary.losses) == 5
