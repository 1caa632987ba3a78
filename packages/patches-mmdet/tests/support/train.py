"""A program that trains a shipped configuration on random data: `train.py MODEL patched|unpatched DEVICE`.

It prints the loss of each step as JSON. Patched, it has the two lines of the README on top.
"""

from __future__ import annotations

import json
import random
import sys

MODEL, MODE, DEVICE = sys.argv[1:]

if DEVICE == "npu":
    from patcher_testing.npu import simulated_npu

    simulation = simulated_npu()  # until the program ends
    simulation.__enter__()

if MODE == "patched":
    from patcher_core import default_patcher

    default_patcher.apply()

from pathlib import Path  # noqa: E402

import numpy as np  # noqa: E402
import torch  # noqa: E402
from mmengine.config import Config  # noqa: E402
from mmengine.optim import build_optim_wrapper  # noqa: E402
from mmengine.registry import MODELS, init_default_scope  # noqa: E402
from mmengine.structures import InstanceData  # noqa: E402

STEPS = 3
CAR_RANGE = (0.0, -5.12, -3.0, 10.24, 5.12, 1.0)


def faster_rcnn():
    import mmdet.models
    from mmdet.structures import DetDataSample

    config = configuration(mmdet, "faster_rcnn/faster-rcnn_r50_fpn_1x_coco.py")
    config.model.backbone.init_cfg = None  # would download weights
    images, annotations = [], []
    for _ in range(2):
        corners = torch.rand(3, 2) * 60
        boxes = torch.cat([corners, corners + 30 + torch.rand(3, 2) * 30], 1)
        images.append(torch.randint(0, 256, (3, 128, 128), dtype=torch.uint8))
        annotation = DetDataSample(gt_instances=InstanceData(bboxes=boxes, labels=torch.randint(0, 80, (3,))))
        annotation.set_metainfo({"img_shape": (128, 128), "scale_factor": (1.0, 1.0), "img_id": 0})
        annotations.append(annotation)
    return config, {"inputs": images, "data_samples": annotations}


def pointpillars():
    import mmdet3d.models
    from mmdet3d.structures import Det3DDataSample, LiDARInstance3DBoxes

    config = configuration(mmdet3d, "pointpillars/pointpillars_hv_secfpn_8xb6-160e_kitti-3d-car.py")
    x, y, _, far_x, far_y, _ = CAR_RANGE
    config.merge_from_dict(
        {
            "model.data_preprocessor.voxel_layer.point_cloud_range": list(CAR_RANGE),
            "model.voxel_encoder.point_cloud_range": list(CAR_RANGE),
            "model.middle_encoder.output_shape": [64, 64],
            "model.bbox_head.anchor_generator.ranges": [[x, y, -1.78, far_x, far_y, -1.78]],
        }
    )
    lower, upper = torch.tensor(CAR_RANGE[:3]), torch.tensor(CAR_RANGE[3:])
    clouds, annotations = [], []
    for _ in range(2):
        positions = lower + (upper - lower) * torch.rand(1500, 3)
        clouds.append(torch.cat([positions, torch.rand(1500, 1)], 1))
        sizes = torch.tensor([3.9, 1.6, 1.56]).expand(3, 3)
        boxes = torch.cat([positions[:3, :2], torch.full((3, 1), -1.78), sizes, torch.rand(3, 1)], 1)
        annotation = Det3DDataSample()
        annotation.gt_instances_3d = InstanceData(
            bboxes_3d=LiDARInstance3DBoxes(boxes), labels_3d=torch.zeros(3, dtype=torch.long)
        )
        annotations.append(annotation)
    return config, {"inputs": {"points": clouds}, "data_samples": annotations}


def configuration(library, file):
    init_default_scope(library.__name__)
    return Config.fromfile(Path(library.__file__).parent / ".mim" / "configs" / file)


torch.set_num_threads(1)
random.seed(0)
np.random.seed(0)
torch.manual_seed(0)
config, batch = {"faster_rcnn": faster_rcnn, "pointpillars": pointpillars}[MODEL]()
model = MODELS.build(config.model)
model.init_weights()
model = model.to(DEVICE)
model.train()
optimizer = build_optim_wrapper(model, config.optim_wrapper)
print(json.dumps([float(model.train_step(batch, optimizer)["loss"]) for _ in range(STEPS)]))
