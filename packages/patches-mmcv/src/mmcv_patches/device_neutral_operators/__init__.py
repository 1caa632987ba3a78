"""Functions of ``mmcv.ops`` that ask for CUDA outside the compiled extension, on other devices.

With ``mmcv._ext`` in plain PyTorch everything below ``mmcv.ops`` could run on any device, but some of its Python
functions allocate CUDA tensors, select a CUDA device, assert one, or use the extension on CUDA tensors only. Each has a
replacement here that does the same on the device of its arguments. CUDA tensors still go to the original.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping, NamedTuple

from patcher_core import AtomicPatch, Patch

__all__ = ["DeviceNeutralOperators"]

_V2 = ("mmcv>=2,<2.3", "mmcv-lite>=2,<2.3")
_V2_0 = ("mmcv>=2.0,<2.1", "mmcv-lite>=2.0,<2.1")
_BEFORE_1_5 = ("mmcv>=1.4,<1.5", "mmcv-full>=1.4,<1.5")


class _Obstacle(NamedTuple):
    #: Path below ``mmcv.ops``, and the replacement's path below this package.
    target: str
    replacement: str
    #: What upstream does there.
    found: str
    requires: tuple[str, ...] = ()
    #: Upstream's own formula works on every device; the extension is better where it runs there.
    needs_portable_extension: bool = False


_OBSTACLES = (
    _Obstacle(
        "furthest_point_sample.FurthestPointSampling.forward",
        "points.furthest_point_sampling_forward",
        "allocates torch.cuda.IntTensor and torch.cuda.FloatTensor",
    ),
    _Obstacle("knn.KNN.forward", "points.knn_forward", "selects the CUDA device of the points"),
    _Obstacle(
        "points_in_boxes.points_in_boxes_part",
        "points.points_in_boxes_part",
        "selects the CUDA device of the points",
    ),
    _Obstacle(
        "points_in_boxes.points_in_boxes_all",
        "points.points_in_boxes_all",
        "selects the CUDA device of the points",
    ),
    _Obstacle(
        "points_in_polygons.points_in_polygons", "points.points_in_polygons", "allocates on CUDA", _V2_0
    ),
    _Obstacle(
        "gather_points.GatherPoints.forward", "points.gather_forward", "allocates on CUDA", _BEFORE_1_5
    ),
    _Obstacle(
        "gather_points.GatherPoints.backward", "points.gather_backward", "allocates on CUDA", _BEFORE_1_5
    ),
    _Obstacle(
        "group_points.GroupingOperation.forward", "points.group_forward", "allocates on CUDA", _BEFORE_1_5
    ),
    _Obstacle(
        "group_points.GroupingOperation.backward", "points.group_backward", "allocates on CUDA", _BEFORE_1_5
    ),
    _Obstacle("three_nn.ThreeNN.forward", "points.three_nn_forward", "allocates on CUDA", _BEFORE_1_5),
    _Obstacle(
        "three_interpolate.ThreeInterpolate.forward",
        "points.three_interpolate_forward",
        "allocates on CUDA",
        _BEFORE_1_5,
    ),
    _Obstacle(
        "three_interpolate.ThreeInterpolate.backward",
        "points.three_interpolate_backward",
        "allocates on CUDA",
        _BEFORE_1_5,
    ),
    _Obstacle("iou3d.nms_bev", "points.nms_bev", "moves indices to CUDA", _BEFORE_1_5),
    _Obstacle("iou3d.nms_normal_bev", "points.nms_normal_bev", "moves indices to CUDA", _BEFORE_1_5),
    _Obstacle(
        "carafe.CARAFENaiveFunction.backward", "images.carafe_naive_backward", "asserts a CUDA gradient"
    ),
    _Obstacle(
        "carafe.CARAFEFunction.backward", "images.carafe_backward", "asserts a CUDA gradient", _BEFORE_1_5
    ),
    _Obstacle("bias_act.bias_act", "images.bias_act", "uses the extension on CUDA tensors only", _V2, True),
    _Obstacle(
        "upfirdn2d.upfirdn2d", "images.upfirdn2d", "uses the extension on CUDA tensors only", _V2, True
    ),
    _Obstacle(
        "filtered_lrelu.filtered_lrelu",
        "images.filtered_lrelu",
        "uses the extension on CUDA tensors only, and asks for CUDA streams",
        _V2,
        True,
    ),
    _Obstacle(
        "fused_bias_leakyrelu.fused_bias_leakyrelu",
        "images.fused_bias_leakyrelu",
        "uses the extension on CUDA tensors only",
        (),
        True,
    ),
)


class DeviceNeutralOperators(Patch):
    """Lets the functions of ``mmcv.ops`` run where their tensors are, and repairs ``fused_indice_conv``."""

    name = "device_neutral_operators"
    library = "mmcv"
    why = (
        "furthest_point_sample, knn, points_in_boxes and carafe_naive ask torch.cuda for memory or a device; bias_act,"
        " upfirdn2d, filtered_lrelu and fused_bias_leakyrelu pass mmcv._ext by unless on CUDA; sparse_ops."
        "fused_indice_conv reads the attribute filters.dtypes, which no tensor has"
    )
    upstream = "mmcv/ops of mmcv 1.4.0 to 2.2.0"
    until = "mmcv.ops allocates on the device of its arguments"

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        return [
            *map(_patch, _OBSTACLES),
            AtomicPatch("mmcv.ops.sparse_ops.fused_indice_conv", f"{__name__}.points.fused_indice_conv"),
        ]


def _patch(obstacle: _Obstacle) -> AtomicPatch:
    return AtomicPatch(
        f"mmcv.ops.{obstacle.target}",
        f"{__name__}.{obstacle.replacement}",
        runtime_check=no_tensor_is_on_cuda,
        precheck=extension_is_portable if obstacle.needs_portable_extension else None,
        requires=obstacle.requires,
    )


def no_tensor_is_on_cuda(*args: Any, **kwargs: Any) -> bool:
    """False where an argument is a CUDA tensor: upstream's own code is made for it."""
    return not any(getattr(value, "is_cuda", False) for value in (*args, *kwargs.values()))


def extension_is_portable() -> bool:
    """Whether ``mmcv._ext`` is the one in plain PyTorch, which takes tensors of any device."""
    import mmcv._ext as extension

    function: Callable[..., Any] = extension.bbox_overlaps
    return (getattr(function, "__module__", None) or "").startswith("mmcv_patches.")
