"""Train and run mmdet's Deformable DETR where mmcv has no compiled operators.

    python examples/deformable_detr/run.py [--steps 30] [--output outputs/deformable_detr]

The first three statements are all that the patches ask of a script. Everything below them is what any mmdet
user writes, and the model is the code that `pip install mmdet` brought, from random weights.
"""

import mmcv_patches
from patcher_core import Patcher

Patcher().add(*mmcv_patches.ALL).apply()

import argparse
from pathlib import Path

import matplotlib
import mmcv
from mmcv.transforms import Compose
from mmdet.apis import inference_detector
from mmdet.structures import DetDataSample
from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.runner import Runner

HERE = Path(__file__).resolve().parent
# A photograph that matplotlib, one of mmdet's dependencies, installs: Grace Hopper, by the US Navy.
PHOTOGRAPH = Path(matplotlib.get_data_path(), "sample_data", "grace_hopper.jpg")


class PrintLoss(Hook):
    """Prints the loss of every step."""

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None):
        print(f"step {runner.iter + 1:3}  loss {outputs['loss'].item():8.4f}", flush=True)


def configuration(steps: int, output: Path) -> Config:
    """The configuration in config.py, for this photograph and this many steps."""
    config = Config.fromfile(HERE / "config.py")
    config.work_dir = str(output)
    config.train_cfg.max_iters = steps
    dataset = config.train_dataloader.dataset
    dataset.ann_file = str(HERE / "annotations.json")
    dataset.data_prefix = {"img": str(PHOTOGRAPH.parent)}
    return config


def describe(prediction: DetDataSample, classes: tuple, threshold: float) -> None:
    """Print class, score and box (left, top, right, bottom, in pixels) of what was found."""
    found = prediction.pred_instances
    for label, score, box in zip(found.labels, found.scores, found.bboxes):
        if score >= threshold:
            print(f"found {classes[label]:8} score {score:.2f}  box {[round(side) for side in box.tolist()]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=30, help="training steps (default: %(default)s)")
    parser.add_argument(
        "--output", type=Path, default=Path("outputs", "deformable_detr"), help="folder to write to"
    )
    arguments = parser.parse_args()

    config = configuration(arguments.steps, arguments.output)
    runner = Runner.from_cfg(config)
    runner.register_hook(PrintLoss())
    model = runner.train().eval()

    model.cfg = config
    prediction = inference_detector(model, str(PHOTOGRAPH), test_pipeline=Compose(config.test_pipeline))
    threshold = 0.3
    describe(prediction, config.classes, threshold)

    picture = arguments.output / "predictions.png"
    runner.visualizer.dataset_meta = runner.train_dataloader.dataset.metainfo
    runner.visualizer.add_datasample(
        "predictions",
        mmcv.imread(str(PHOTOGRAPH), channel_order="rgb"),
        prediction,
        draw_gt=False,
        pred_score_thr=threshold,
        out_file=str(picture),
    )
    print(f"wrote {picture}")


if __name__ == "__main__":
    main()
