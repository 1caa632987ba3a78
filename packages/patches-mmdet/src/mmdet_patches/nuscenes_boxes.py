"""nuScenes boxes from the boxes of mmdet3d, without what upstream computes anew for each of them.

Angles and formulas are those of ``output_to_nusc_box`` in mmdet3d 0.17.3, 1.0.0rc6 and 1.1.0 to 1.4.0. The sine and the
cosine are taken one by one by ``math``, as pyquaternion does, so that the numbers are the same to the last bit.
"""

from __future__ import annotations

from math import cos, pi, sin
from typing import TYPE_CHECKING, Any, Iterable, Sequence

if TYPE_CHECKING:
    import numpy as np
    from nuscenes.utils.data_classes import Box
    from torch import Tensor

    #: w, x, y, z
    Rotation = Sequence[float]


def make_boxes(
    boxes: Any, sizes: np.ndarray, rotations: Iterable[Rotation], velocities: np.ndarray, detection: Any
) -> list[Box]:
    """One nuScenes box for each box of a detection.

    Args:
        boxes: mmdet3d's n boxes, for their centres.
        sizes: (n, 3), metres: width, length, height.
        rotations: n unit quaternions.
        velocities: (n, 3) m/s; (n, 1) zeros where boxes have none, as upstream then has it.
        detection: ``scores_3d`` (n,) and ``labels_3d`` (n,).
    """
    from nuscenes.utils.data_classes import Box
    from pyquaternion import Quaternion

    rows = zip(
        boxes.gravity_center.numpy(),
        sizes,
        rotations,
        velocities,
        detection["labels_3d"].tolist(),
        detection["scores_3d"].tolist(),
    )
    return [
        Box(center, size, Quaternion(array=rotation), label=label, score=score, velocity=velocity)
        for center, size, rotation, velocity, label, score in rows
    ]


def rotations_around_vertical(yaw: np.ndarray) -> list[Rotation]:
    """The rotation by each of the angles (n,), in radians, around z."""
    return [(cos(half), 0.0, 0.0, sin(half)) for half in (yaw / 2).tolist()]


def rotations_of_camera_boxes(yaw: np.ndarray) -> list[Rotation]:
    """A rotation by each of the angles (n,) around z, then by a right angle around x: y points down in a camera."""
    real, x = cos(pi / 4), sin(pi / 4)
    return [(real * w, x * w, -x * z, real * z) for w, _, _, z in rotations_around_vertical(yaw)]


def horizontal_velocities(boxes: Tensor) -> np.ndarray:
    """(n, 7 or 9) LiDAR boxes to (n, 3) x, y, 0 in float64; to (n, 1) zeros where boxes are without velocity."""
    import numpy

    return numpy.pad(boxes[:, 7:9].numpy().astype(float), ((0, 0), (0, 1)))


class RigidMotion:
    """A change of the coordinate system, made once for all boxes of a frame.

    Args:
        matrix: (4, 4) homogeneous, as nested lists or an array.

    Raises:
        ValueError: its rotation is not orthogonal within 1e-5 relative and 1e-7 absolute.
    """

    def __init__(self, matrix: Any) -> None:
        import numpy
        from pyquaternion import Quaternion

        matrix = numpy.array(matrix)
        self._rotation = Quaternion(matrix=matrix, rtol=1e-05, atol=1e-07)
        self._inverse = self._rotation.inverse
        self._translation = matrix[:3, 3]

    def apply(self, box: Box) -> None:
        """Move the box in place."""
        box.rotate(self._rotation)
        box.translate(self._translation)

    def undo(self, box: Box) -> None:
        """Move the box in place, the other way."""
        box.translate(-self._translation)
        box.rotate(self._inverse)
