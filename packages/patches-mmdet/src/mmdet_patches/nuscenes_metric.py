"""mmdet3d 1.1 and later: results in the format of nuScenes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping, Sequence

from patcher_core import AtomicPatch, Patch

from .nuscenes_boxes import (
    RigidMotion,
    horizontal_velocities,
    make_boxes,
    rotations_around_vertical,
    rotations_of_camera_boxes,
)

if TYPE_CHECKING:
    import numpy as np
    from nuscenes.eval.detection.config import DetectionConfig
    from nuscenes.utils.data_classes import Box

_MODULE = "mmdet3d.evaluation.metrics.nuscenes_metric"


class NuScenesMetric(Patch):
    """``output_to_nusc_box`` makes all rotations and velocities at once, and a frame's transforms are made once.

    Upstream makes a rotation from an axis, and two from 4 x 4 matrices with their checks, for every box.
    """

    name = "nuscenes_metric"
    legacy_name = "nuscenes_metric"
    library = "mmdet3d"
    requires = "mmdet3d>=1.1.0,<1.5"
    why = "evaluation makes three rotations and a few tensors for every box on one core of the host"
    upstream = "mmdet3d/evaluation/metrics/nuscenes_metric.py, mmdet3d 1.1.0 to 1.4.0"

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        replacements = {
            "output_to_nusc_box": convert_detection,
            "lidar_nusc_box_to_global": lidar_boxes_to_global,
            "cam_nusc_box_to_global": camera_boxes_to_global,
            "global_nusc_box_to_cam": global_boxes_to_camera,
        }
        return [AtomicPatch(f"{_MODULE}.{name}", replacement) for name, replacement in replacements.items()]


def convert_detection(detection: Mapping[str, Any]) -> tuple[list[Box], np.ndarray | None]:
    """LiDAR or camera boxes to nuScenes boxes.

    Args:
        detection: ``bboxes_3d``, n boxes (n, 7 or 9); ``scores_3d`` (n,); ``labels_3d`` (n,); ``attr_labels`` (n,) or
            without.

    Returns:
        the boxes, and the attributes or None.

    Raises:
        NotImplementedError: the boxes are of another type.
        IndexError: camera boxes without velocity.
    """
    from mmdet3d.structures import CameraInstance3DBoxes, LiDARInstance3DBoxes

    boxes = detection["bboxes_3d"]
    sizes, yaw = boxes.dims.numpy(), boxes.yaw.numpy()
    if isinstance(boxes, LiDARInstance3DBoxes):
        sizes = sizes[:, [1, 0, 2]]
        rotations = rotations_around_vertical(yaw)
        velocities = horizontal_velocities(boxes.tensor)
    elif isinstance(boxes, CameraInstance3DBoxes):
        sizes = sizes[:, [2, 0, 1]]
        rotations = rotations_of_camera_boxes(-yaw)
        velocities = camera_velocities(boxes)
    else:
        raise NotImplementedError(
            f"nuScenes boxes are made of LiDARInstance3DBoxes and CameraInstance3DBoxes, not of {type(boxes).__name__}"
        )
    attributes = detection["attr_labels"].numpy() if "attr_labels" in detection else None
    return make_boxes(boxes, sizes, rotations, velocities, detection), attributes


def camera_velocities(boxes: Any) -> np.ndarray:
    """n camera boxes of 9 numbers to (n, 3) x, 0, z in float64."""
    import numpy

    velocities = numpy.zeros((len(boxes), 3))
    if len(boxes):
        velocities[:, [0, 2]] = boxes.tensor.numpy()[:, [7, 8]]
    return velocities


def lidar_boxes_to_global(
    info: Mapping[str, Any], boxes: Sequence[Box], classes: Sequence[str], eval_configs: DetectionConfig
) -> list[Box]:
    """Move boxes, in place, from the LiDAR's to the global coordinate system.

    Args:
        info: a frame's, with ``lidar_points.lidar2ego`` and ``ego2global``, 4 x 4 matrices.
        classes: names by label.
        eval_configs: ``class_range`` has the evaluated distance from the vehicle, in metres, by name.

    Returns:
        the boxes within the range of their class.
    """
    if not boxes:
        return []
    lidar_to_ego = RigidMotion(info["lidar_points"]["lidar2ego"])
    ego_to_global = RigidMotion(info["ego2global"])
    kept = []
    for box in boxes:
        lidar_to_ego.apply(box)
        if _is_in_range(box, classes, eval_configs):
            ego_to_global.apply(box)
            kept.append(box)
    return kept


def camera_boxes_to_global(
    info: Mapping[str, Any],
    boxes: Sequence[Box],
    attrs: Sequence[int],
    classes: Sequence[str],
    eval_configs: DetectionConfig,
    camera_type: str = "CAM_FRONT",
) -> tuple[list[Box], list[int]]:
    """As :func:`lidar_boxes_to_global`, from the system of a camera (``images.CAM_FRONT.cam2ego``).

    Returns:
        the boxes within the range of their class, and their attributes.
    """
    pairs = list(zip(boxes, attrs))
    if not pairs:
        return [], []
    camera_to_ego = RigidMotion(info["images"][camera_type]["cam2ego"])
    ego_to_global = RigidMotion(info["ego2global"])
    kept_boxes, kept_attributes = [], []
    for box, attribute in pairs:
        camera_to_ego.apply(box)
        if _is_in_range(box, classes, eval_configs):
            ego_to_global.apply(box)
            kept_boxes.append(box)
            kept_attributes.append(attribute)
    return kept_boxes, kept_attributes


def global_boxes_to_camera(
    info: Mapping[str, Any], boxes: Sequence[Box], classes: Sequence[str], eval_configs: DetectionConfig
) -> list[Box]:
    """Move boxes, in place, from the global system to that of the front camera; as :func:`lidar_boxes_to_global`."""
    if not boxes:
        return []
    ego_to_global = RigidMotion(info["ego2global"])
    camera_to_ego = RigidMotion(info["images"]["CAM_FRONT"]["cam2ego"])
    kept = []
    for box in boxes:
        ego_to_global.undo(box)
        if _is_in_range(box, classes, eval_configs):
            camera_to_ego.undo(box)
            kept.append(box)
    return kept


def _is_in_range(box: Box, classes: Sequence[str], eval_configs: DetectionConfig) -> bool:
    """Upstream leaves out what is farther than the range: a distance that is not a number is kept."""
    import numpy

    return not numpy.linalg.norm(box.center[:2], 2) > eval_configs.class_range[classes[box.label]]
