"""A 1.0 program written for ``mx_driving.patcher`` trains with mmcv 1.x."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from mmcv_patches import mmcv_version

pytestmark = pytest.mark.skipif(
    not mmcv_version.is_v1x, reason=f"the program needs mmcv 1.x, here is {mmcv_version}"
)

PROGRAM = """
import torch
from mmcv.runner import HOOKS, EpochBasedRunner
from mmcv.utils import get_logger
from mx_driving.patcher import Patch, PatcherBuilder, is_mmcv_v1x, mmcv_version
from mx_driving.patcher.mmengine_patch import ddp, optimizer_hooks, stream

assert is_mmcv_v1x and mmcv_version.is_v1x and not mmcv_version.has_mmengine
upstream = HOOKS.get("OptimizerHook").after_train_iter


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 1)

    def train_step(self, data, optimizer):
        loss = self.linear(data).pow(2).mean()
        return {"loss": loss, "log_vars": {"loss": loss.item()}, "num_samples": len(data)}


builder = PatcherBuilder().add_module_patch("mmcv", Patch(stream), Patch(ddp), Patch(optimizer_hooks))
builder.brake_at(5, exit_code=None)

if __name__ == "__main__":
    with builder.build() as patcher:
        applied = {result.group for result in patcher.report.applied}
        assert applied >= {"stream", "optimizer_hooks"} and not patcher.report.failed, list(patcher.report)
        assert HOOKS.get("OptimizerHook").after_train_iter is not upstream
        model = Model()
        before = model.linear.weight.detach().clone()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        runner = EpochBasedRunner(
            model, optimizer=optimizer, work_dir="work", logger=get_logger("run", log_level="ERROR"), max_epochs=3
        )
        runner.register_training_hooks({"policy": "fixed"}, {"grad_clip": {"max_norm": 1.0}})
        runner.run([[torch.rand(2, 3) for _ in range(4)]], [("train", 1)])
        assert runner.iter == 5 and not torch.equal(before, model.linear.weight)
    assert HOOKS.get("OptimizerHook").after_train_iter is upstream
    print("trained")
"""


def test_a_1_0_program_trains_and_is_undone(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import patcher_core.compat.mx_driving\n")
    (tmp_path / "train.py").write_text(PROGRAM)
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "train.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and "trained" in done.stdout, done.stdout + done.stderr
