"""A small random dataset in the format of nuScenes, and random detections in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")
Quaternion = pytest.importorskip("pyquaternion", reason="nuScenes needs pyquaternion").Quaternion

#: Classes of nuScenes detection, and the category and attribute of each.
CLASSES = {
    "car": ("vehicle.car", "vehicle.parked"),
    "truck": ("vehicle.truck", "vehicle.moving"),
    "trailer": ("vehicle.trailer", "vehicle.parked"),
    "bus": ("vehicle.bus.rigid", "vehicle.stopped"),
    "construction_vehicle": ("vehicle.construction", "vehicle.parked"),
    "bicycle": ("vehicle.bicycle", "cycle.with_rider"),
    "motorcycle": ("vehicle.motorcycle", "cycle.without_rider"),
    "pedestrian": ("human.pedestrian.adult", "pedestrian.standing"),
    "traffic_cone": ("movable_object.trafficcone", ""),
    "barrier": ("movable_object.barrier", ""),
}


class Frame(NamedTuple):
    """One sample: where its sensors are, what is there and what was detected."""

    token: str
    lidar2ego: Any
    ego2global: Any
    #: (n, 9) LiDAR boxes as mmdet3d 1.x has them; (n,) each
    boxes: Any
    scores: Any
    labels: Any


class NuScenesData(NamedTuple):
    root: Path
    version: str
    classes: tuple[str, ...]
    frames: list[Frame]


def random_motion(rng: Any, distance: float) -> Any:
    motion = Quaternion(
        axis=rng.normal(size=3) * [0.02, 0.02, 1], radians=rng.uniform(-3, 3)
    ).transformation_matrix
    motion[:3, 3] = rng.uniform(-distance, distance, 3) * [1, 1, 0.01]
    return motion


def random_boxes(rng: Any, count: int) -> Any:
    boxes = rng.uniform(-1, 1, (count, 9)) * [35, 35, 1, 0, 0, 0, 3.1, 3, 3]
    boxes[:, 3:6] = rng.uniform(0.5, 5, (count, 3))
    return torch.tensor(boxes, dtype=torch.float32)


@pytest.fixture
def nuscenes_data(tmp_path: Path, seed: int) -> NuScenesData:
    """Three frames of 100 objects; most are detected, some of them badly, and there are false detections."""
    rng = np.random.default_rng(seed)
    frames, annotations = [], []
    for number in range(3):
        frame = Frame(
            f"sample{number}",
            random_motion(rng, 2),
            random_motion(rng, 500),
            boxes := random_boxes(rng, 100),
            torch.tensor(rng.uniform(size=100), dtype=torch.float32),
            torch.tensor(rng.integers(0, len(CLASSES), 100)),
        )
        frames.append(frame)
        truths = boxes + torch.tensor(rng.normal(size=boxes.shape), dtype=torch.float32) * 0.2
        truths[:, 3:6] = truths[:, 3:6].abs()
        annotations += [
            annotation(frame, index, truth) for index, truth in enumerate(truths.tolist()) if index % 5
        ]
    write_tables(tmp_path, frames, annotations)
    return NuScenesData(tmp_path, "v1.0-mini", tuple(CLASSES), frames)


def annotation(frame: Frame, index: int, truth: list[float]) -> dict[str, Any]:
    x, y, bottom, length, width, height, yaw, *_ = truth
    to_global = frame.ego2global @ frame.lidar2ego
    name = list(CLASSES)[int(frame.labels[index])]
    attribute = CLASSES[name][1]
    return {
        "token": f"{frame.token}-{index}",
        "sample_token": frame.token,
        "instance_token": f"instance-{name}",
        "attribute_tokens": [attribute] if attribute else [],
        "visibility_token": "4",
        "translation": (to_global @ [x, y, bottom + height / 2, 1])[:3].tolist(),
        "size": [width, length, height],
        "rotation": (
            Quaternion(matrix=to_global) * Quaternion(axis=[0, 0, 1], radians=yaw)
        ).elements.tolist(),
        "num_lidar_pts": 5,
        "num_radar_pts": 0,
        "prev": "",
        "next": "",
    }


def write_tables(root: Path, frames: list[Frame], annotations: list[dict[str, Any]]) -> None:
    def pose(token: str, matrix: Any) -> dict[str, Any]:
        return {
            "token": token,
            "translation": matrix[:3, 3].tolist(),
            "rotation": Quaternion(matrix=matrix).elements.tolist(),
            "timestamp": 0,
        }

    attributes = sorted({attribute for _, attribute in CLASSES.values()} - {""})
    tables = {
        "category": [{"token": category, "name": category} for category, _ in CLASSES.values()],
        "attribute": [{"token": attribute, "name": attribute} for attribute in attributes],
        "visibility": [{"token": "4", "level": "v80-100"}],
        "instance": [
            {"token": f"instance-{name}", "category_token": category}
            for name, (category, _) in CLASSES.items()
        ],
        "sensor": [{"token": "lidar", "channel": "LIDAR_TOP", "modality": "lidar"}],
        "calibrated_sensor": [
            {**pose(frame.token, frame.lidar2ego), "sensor_token": "lidar", "camera_intrinsic": []}
            for frame in frames
        ],
        "ego_pose": [pose(frame.token, frame.ego2global) for frame in frames],
        "log": [{"token": "log", "location": "singapore-onenorth"}],
        "scene": [{"token": "scene", "name": "scene-0103", "log_token": "log"}],
        "sample": [{"token": frame.token, "scene_token": "scene", "timestamp": 0} for frame in frames],
        "sample_data": [
            {
                "token": frame.token,
                "sample_token": frame.token,
                "ego_pose_token": frame.token,
                "calibrated_sensor_token": frame.token,
                "is_key_frame": True,
            }
            for frame in frames
        ],
        "sample_annotation": annotations,
        "map": [{"token": "map", "filename": "map.png", "log_tokens": ["log"]}],
    }
    (root / "v1.0-mini").mkdir()
    (root / "map.png").touch()
    for name, rows in tables.items():
        (root / "v1.0-mini" / f"{name}.json").write_text(json.dumps(rows))


def as_tensors(boxes: list[Any]) -> dict[str, Any]:
    """Everything that a nuScenes box holds."""
    return {
        name: [torch.as_tensor(value(box)) for box in boxes]
        for name, value in {
            "center": lambda box: box.center,
            "wlh": lambda box: box.wlh,
            "orientation": lambda box: box.orientation.elements,
            "velocity": lambda box: box.velocity,
            "label": lambda box: box.label,
            "score": lambda box: np.float64(box.score),
        }.items()
    }


@pytest.fixture(scope="session")
def contents_of_boxes():
    return as_tensors
