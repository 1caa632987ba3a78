"""3D models built from the configurations that mmdet3d ships, trained one step without mmcv's compiled operators.

A configuration is used as it is, but for the extent of the scene and the number of proposals, which decide how
long a step takes on a CPU.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import warnings
from pathlib import Path
from typing import Any, Iterator, NamedTuple

import pytest

torch = pytest.importorskip("torch")
if importlib.util.find_spec("mmdet3d") is None:
    pytest.skip("mmdet3d is not installed in this environment", allow_module_level=True)

import mmcv_patches  # noqa: E402
from patcher_core import Patcher  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # mmdet3d's own; it is not what is tested here


class Scene(NamedTuple):
    """Random points of one kind, with some boxes or labels around them."""

    extent: tuple[float, ...]
    points: int
    features: int = 4
    classes: int = 1
    box_features: int = 7
    boxes: str = "LiDARInstance3DBoxes"
    box_size: tuple[float, ...] = (3.9, 1.6, 1.56)


class Case(NamedTuple):
    configuration: str
    scene: Scene
    changes: dict[str, Any] = {}  # noqa: RUF012
    #: Parts that learn from proposals that overlap a box, which an untrained first stage seldom makes.
    seldom_reached: frozenset[str] = frozenset()


PILLARS = (0.0, -5.12, -3.0, 10.24, 5.12, 1.0)
VOXELS = (0.0, -6.4, -3.0, 12.8, 6.4, 1.0)
NUSCENES = (-12.8, -12.8, -5.0, 12.8, 12.8, 3.0)
ROOM = (-2.0, -2.0, 0.0, 2.0, 2.0, 2.0)


def voxel_range(extent: tuple[float, ...]) -> dict[str, Any]:
    return {"model.data_preprocessor.voxel_layer.point_cloud_range": list(extent)}


def anchors(head: str, extent: tuple[float, ...], *heights: float) -> dict[str, Any]:
    (x, y, _, far_x, far_y, _) = extent
    return {f"{head}.anchor_generator.ranges": [[x, y, z, far_x, far_y, z] for z in heights]}


PILLAR_CHANGES = {
    **voxel_range(PILLARS),
    **anchors("model.bbox_head", PILLARS, -1.78),
    "model.voxel_encoder.point_cloud_range": list(PILLARS),
    "model.middle_encoder.output_shape": [64, 64],
}
FEW_PROPOSALS = {
    "model.train_cfg.rpn_proposal.nms_pre": 512,
    "model.train_cfg.rpn_proposal.nms_post": 64,
    "model.train_cfg.rpn_proposal.max_num": 64,
    "model.test_cfg.rpn.nms_pre": 512,
    "model.test_cfg.rpn.nms_post": 32,
    "model.test_cfg.rpn.max_num": 32,
}
SPARSE_CHANGES = {**voxel_range(VOXELS), "model.middle_encoder.sparse_shape": [41, 256, 256]}

CASES = {
    "PointPillars": Case(
        "pointpillars/pointpillars_hv_secfpn_8xb6-160e_kitti-3d-car.py", Scene(PILLARS, 1500), PILLAR_CHANGES
    ),
    "PointPillars with dynamic voxels": Case(
        "dynamic_voxelization/pointpillars_dv_secfpn_8xb6-160e_kitti-3d-car.py",
        Scene(PILLARS, 1500),
        PILLAR_CHANGES,
    ),
    "SECOND": Case(
        "second/second_hv_secfpn_8xb6-80e_kitti-3d-car.py",
        Scene(VOXELS, 1500),
        {**SPARSE_CHANGES, **anchors("model.bbox_head", VOXELS, -1.78)},
    ),
    "CenterPoint": Case(
        "centerpoint/centerpoint_voxel01_second_secfpn_8xb4-cyclic-20e_nus-3d.py",
        Scene(NUSCENES, 1500, features=5, box_features=9),
        {
            **voxel_range(NUSCENES),
            "model.pts_middle_encoder.sparse_shape": [41, 256, 256],
            "model.train_cfg.pts.grid_size": [256, 256, 40],
            "model.train_cfg.pts.point_cloud_range": list(NUSCENES),
            "model.pts_bbox_head.bbox_coder.pc_range": list(NUSCENES[:2]),
            "model.test_cfg.pts.pc_range": list(NUSCENES[:2]),
        },
    ),
    "Part-A2": Case(
        "parta2/parta2_hv_secfpn_8xb2-cyclic-80e_kitti-3d-3class.py",
        Scene(VOXELS, 1500, classes=3),
        {**SPARSE_CHANGES, **FEW_PROPOSALS, **anchors("model.rpn_head", VOXELS, -0.6, -0.6, -1.78)},
        frozenset({"roi_head"}),
    ),
    "PV-RCNN": Case(
        "pv_rcnn/pv_rcnn_8xb2-80e_kitti-3d-3class.py",
        Scene(VOXELS, 1500, classes=3),
        {
            **SPARSE_CHANGES,
            **FEW_PROPOSALS,
            **anchors("model.rpn_head", VOXELS, -0.6, -0.6, -1.78),
            "model.points_encoder.point_cloud_range": list(VOXELS),
            "model.points_encoder.num_keypoints": 256,
        },
        frozenset({"roi_head"}),
    ),
    "VoteNet": Case(
        "votenet/votenet_8xb16_sunrgbd-3d.py",
        Scene(ROOM, 2500, classes=10, boxes="DepthInstance3DBoxes", box_size=(1.0, 0.8, 0.9)),
    ),
    "PointNet++": Case(
        "pointnet2/pointnet2_ssg_2xb16-cosine-200e_scannet-seg.py",
        Scene(ROOM, 1500, features=6, classes=19, boxes="DepthInstance3DBoxes"),
    ),
    "PAConv": Case(
        "paconv/paconv_ssg-cuda_8xb8-cosine-200e_s3dis-seg.py",
        Scene(ROOM, 1100, features=9, classes=12, boxes="DepthInstance3DBoxes"),
    ),
    "Cylinder3D": Case(
        "cylinder3d/cylinder3d_4xb4-3x_semantickitti.py",
        Scene((-20.0, -20.0, -3.0, 20.0, 20.0, 1.0), 1500, classes=18),
        {
            "model.data_preprocessor.voxel_layer.grid_shape": [48, 36, 32],
            "model.backbone.grid_size": [48, 36, 32],
        },
    ),
}

#: Their test pipelines make further features of the points, or cut the scene into tiles: not a matter of operators.
ONLY_TRAINED = {"PointNet++", "PAConv"}


@pytest.fixture(scope="module", autouse=True)
def patched_mmcv() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Patcher().add(*mmcv_patches.DEFAULT):
            importlib.import_module("mmdet3d.utils").register_all_modules()
            yield


def build(case: Case) -> torch.nn.Module:
    import mmdet3d
    from mmdet3d.registry import MODELS
    from mmengine.config import Config

    configurations = Path(mmdet3d.__file__).parent / ".mim" / "configs"
    configuration = Config.fromfile(configurations / case.configuration)
    configuration.merge_from_dict(case.changes)
    return MODELS.build(configuration.model)


def random_batch(scene: Scene, samples: int = 2) -> dict[str, Any]:
    from mmdet3d import structures
    from mmengine.structures import InstanceData

    lower, upper = torch.tensor(scene.extent[:3]), torch.tensor(scene.extent[3:])
    box_type = getattr(structures, scene.boxes)
    clouds, annotations = [], []
    for _ in range(samples):
        positions = lower + (upper - lower) * torch.rand(scene.points, 3)
        clouds.append(torch.cat([positions, torch.rand(scene.points, scene.features - 3)], 1))
        boxes = torch.zeros(3, scene.box_features)
        boxes[:, :2], boxes[:, 2] = positions[:3, :2], lower[2] + 0.2
        boxes[:, 3:6], boxes[:, 6] = torch.tensor(scene.box_size), torch.rand(3)
        annotation = structures.Det3DDataSample()
        annotation.set_metainfo({"box_type_3d": box_type, "box_mode_3d": 0})
        annotation.gt_instances_3d = InstanceData(
            bboxes_3d=box_type(boxes, box_dim=scene.box_features),
            labels_3d=torch.arange(3) % scene.classes,
        )
        annotation.gt_pts_seg = structures.PointData(
            pts_semantic_mask=torch.randint(0, scene.classes + 1, (scene.points,)),
            pts_instance_mask=torch.randint(0, 3, (scene.points,)),
        )
        annotation.eval_ann_info = None
        annotations.append(annotation)
    return {"inputs": {"points": clouds}, "data_samples": annotations}


def training_step(model: torch.nn.Module, batch: dict[str, Any]) -> tuple[float, dict[str, torch.Tensor]]:
    """The loss of a batch and its gradients by parameter; zero where none came."""
    model.train()
    model.zero_grad()
    loss, _ = model.parse_losses(model(**model.data_preprocessor(batch, True), mode="loss"))
    loss.backward()
    gradients = {
        name: torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.clone()
        for name, parameter in model.named_parameters()
    }
    return loss.item(), gradients


@pytest.mark.parametrize("name", CASES)
def test_a_shipped_configuration_trains(name: str) -> None:
    case = CASES[name]
    loss, gradients = training_step(build(case), random_batch(case.scene))
    assert torch.isfinite(torch.tensor(loss))
    assert all(torch.isfinite(gradient).all() for gradient in gradients.values())
    reached = {name.partition(".")[0] for name, gradient in gradients.items() if gradient.any()}
    assert reached | case.seldom_reached == {name.partition(".")[0] for name in gradients}


@pytest.mark.parametrize("name", [name for name in CASES if name not in ONLY_TRAINED])
def test_a_shipped_configuration_predicts(name: str) -> None:
    case = CASES[name]
    model, batch = build(case).eval(), random_batch(case.scene)
    with torch.no_grad():
        predictions = model(**model.data_preprocessor(batch, False), mode="predict")
    assert len(predictions) == 2
    for prediction in predictions:
        if "pred_instances_3d" in prediction:
            boxes = prediction.pred_instances_3d
            assert len(boxes.scores_3d) == len(boxes.labels_3d) == len(boxes.bboxes_3d)
            assert torch.isfinite(boxes.bboxes_3d.tensor).all()
        else:
            assert prediction.pred_pts_seg.pts_semantic_mask.shape == (case.scene.points,)


@pytest.mark.skipif("PATCHER_REFERENCE_MMCV" not in os.environ, reason="no compiled reference here")
def test_a_training_step_of_pointpillars_is_that_with_compiled_voxelization(monkeypatch) -> None:
    import mmcv.ops

    file = next(Path(os.environ["PATCHER_REFERENCE_MMCV"], "mmcv").glob("_ext*.so"))
    spec = importlib.util.spec_from_file_location("_ext", file)
    assert spec is not None and spec.loader is not None
    compiled = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(compiled)

    case = CASES["PointPillars"]
    model, batch = build(case), random_batch(case.scene)
    loss, gradients = training_step(model, batch)
    monkeypatch.setattr(mmcv.ops.voxelize, "ext_module", compiled)
    expected_loss, expected_gradients = training_step(model, batch)
    assert loss == pytest.approx(expected_loss, rel=1e-6)
    torch.testing.assert_close(gradients, expected_gradients)
