"""mmdet3d before 1.1: results of the nuScenes dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping

from patcher_core import AtomicPatch, LibraryVersion, Patch

from .nuscenes_boxes import horizontal_velocities, make_boxes, rotations_around_vertical

if TYPE_CHECKING:
    from nuscenes.utils.data_classes import Box

_mmdet3d_version = LibraryVersion("mmdet3d", is_v0x="<1.0.0rc0")


class NuScenesDataset(Patch):
    """``output_to_nusc_box`` of the dataset makes all rotations and velocities at once."""

    name = "nuscenes_dataset"
    legacy_name = "nuscenes_dataset"
    library = "mmdet3d"
    requires = "mmdet3d>=0.17,<1.1"
    why = "evaluation makes a rotation from an axis, and three tensors, for every box on one core of the host"
    upstream = "mmdet3d/datasets/nuscenes_dataset.py, mmdet3d 0.17.3 and 1.0.0rc6"
    until = "mmdet3d 1.1, where NuScenesMetric evaluates"

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        convert = convert_in_rotated_system if _mmdet3d_version.is_v0x else convert_detection
        return [AtomicPatch("mmdet3d.datasets.nuscenes_dataset.output_to_nusc_box", convert)]


def convert_detection(detection: Mapping[str, Any], with_velocity: bool = True) -> list[Box]:
    """mmdet3d 1.0: LiDAR boxes to nuScenes boxes.

    Args:
        detection: ``boxes_3d``, n boxes (n, 7 or 9); ``scores_3d`` (n,); ``labels_3d`` (n,).
        with_velocity: where False, all velocities are 0.
    """
    import numpy

    boxes = detection["boxes_3d"]
    sizes = boxes.dims.numpy()[:, [1, 0, 2]]
    rotations = rotations_around_vertical(boxes.yaw.numpy())
    still = numpy.zeros((len(sizes), 3), dtype=int)
    velocities = horizontal_velocities(boxes.tensor) if with_velocity else still
    return make_boxes(boxes, sizes, rotations, velocities, detection)


def convert_in_rotated_system(detection: Mapping[str, Any]) -> list[Box]:
    """mmdet3d 0.x, whose boxes have their width first and their yaw from the y axis, clockwise."""
    from math import pi

    boxes = detection["boxes_3d"]
    rotations = rotations_around_vertical(-boxes.yaw.numpy() - pi / 2)
    return make_boxes(boxes, boxes.dims.numpy(), rotations, horizontal_velocities(boxes.tensor), detection)
