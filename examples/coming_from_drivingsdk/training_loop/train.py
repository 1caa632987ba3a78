import tempfile
from pathlib import Path

import torch
from mmengine.model import BaseModel
from mmengine.runner import Runner
from mx_driving.patcher import PatcherBuilder
from mx_driving.patcher.mmcv_patch import build_mmcv_epoch_runner_patch, build_mmcv_iter_runner_patch
from mx_driving.patcher.mmengine_patch import build_mmengine_epoch_train_loop_patch
from mx_driving.patcher.mmengine_patch import build_mmengine_iter_train_loop_patch as build_iter_loop_patch
from mx_driving.patcher.patcher import Patcher

temporary = tempfile.TemporaryDirectory()
folder = Path(temporary.name)
steps = []


class Model(BaseModel):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 1)

    def forward(self, inputs, mode="tensor"):
        output = self.linear(inputs)
        steps.append(mode)
        return {"loss": output.pow(2).mean()} if mode == "loss" else output


def train(by_epoch=True):
    steps.clear()
    Runner(
        Model(),
        str(folder / "work"),
        train_dataloader=dict(
            dataset=[dict(inputs=row) for row in torch.rand(8, 3)],
            sampler=dict(type="DefaultSampler"),
            batch_size=2,
            collate_fn=dict(type="default_collate"),
        ),
        train_cfg=dict(by_epoch=by_epoch, **({"max_epochs": 4} if by_epoch else {"max_iters": 16})),
        optim_wrapper=dict(optimizer=dict(type="SGD", lr=0.1)),
        default_scope="mmengine",
    ).train()


def ended(run):
    try:
        run()
    except SystemExit as end:
        return end.code == 0
    return False


if __name__ == "__main__":
    try:
        Patcher().with_profiling(str(folder), level=3)
    except ValueError as error:
        assert "level" in str(error)
    else:
        raise AssertionError("there is no level 3")

    builder = PatcherBuilder()
    builder.with_profiling(
        str(folder / "traces"), 0, skip_first=1, wait=0, warmup=1, active=1, repeat=1
    ).brake_at(6)
    with builder.build():
        assert ended(train) and len(steps) == 6, steps
    assert list((folder / "traces").iterdir())

    with Patcher().brake_at(3):
        assert ended(lambda: train(by_epoch=False)) and len(steps) == 3, steps

    loops = [
        build(dict(brake_step=5))
        for build in (
            build_mmcv_epoch_runner_patch,
            build_mmcv_iter_runner_patch,
            build_mmengine_epoch_train_loop_patch,
            build_iter_loop_patch,
        )
    ]
    with Patcher().add(*loops):
        assert ended(train) and len(steps) == 5, steps
    print("trained", len(steps), "steps")
