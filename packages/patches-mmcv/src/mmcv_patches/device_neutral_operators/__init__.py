"""Functions of ``mmcv.ops`` that ask for CUDA outside the compiled extension, on other devices.

With ``mmcv._ext`` in plain PyTorch everything below ``mmcv.ops`` could run on any device, but some of its Python
functions allocate CUDA tensors, select a CUDA device, assert one, or use the extension on CUDA tensors only. Each has a
replacement here that does the same on the device of its arguments. CUDA tensors still go to the original.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping, NamedTuple

from patcher_core import AtomicPatch, Patch

from .hard_coded_cuda import asks_for_cuda

__all__ = ["DeviceNeutralOperators"]


class _Obstacle(NamedTuple):
    #: Path below ``mmcv.ops``, and the replacement's path below this package.
    target: str
    replacement: str
    #: Upstream's own formula works on every device; the extension is better where it runs there.
    needs_portable_extension: bool = False


#: Every function of mmcv.ops 1.4.0 to 2.2.0 that allocates on CUDA, selects or asserts a CUDA device, or has its kernel
#: run on CUDA tensors only. Which of them do so in the installed version, its code says.
_OBSTACLES = (
    _Obstacle(
        "furthest_point_sample.FurthestPointSampling.forward", "points.furthest_point_sampling_forward"
    ),
    _Obstacle("knn.KNN.forward", "points.knn_forward"),
    _Obstacle("points_in_boxes.points_in_boxes_part", "points.points_in_boxes_part"),
    _Obstacle("points_in_boxes.points_in_boxes_all", "points.points_in_boxes_all"),
    _Obstacle("points_in_polygons.points_in_polygons", "points.points_in_polygons"),
    _Obstacle("gather_points.GatherPoints.forward", "points.gather_forward"),
    _Obstacle("gather_points.GatherPoints.backward", "points.gather_backward"),
    _Obstacle("group_points.GroupingOperation.forward", "points.group_forward"),
    _Obstacle("group_points.GroupingOperation.backward", "points.group_backward"),
    _Obstacle("three_nn.ThreeNN.forward", "points.three_nn_forward"),
    _Obstacle("three_interpolate.ThreeInterpolate.forward", "points.three_interpolate_forward"),
    _Obstacle("three_interpolate.ThreeInterpolate.backward", "points.three_interpolate_backward"),
    _Obstacle("iou3d.nms_bev", "suppression.nms_bev"),
    _Obstacle("iou3d.nms_normal_bev", "suppression.nms_normal_bev"),
    _Obstacle("iou3d.nms3d", "suppression.nms3d"),
    _Obstacle("iou3d.nms3d_normal", "suppression.nms3d_normal"),
    _Obstacle("carafe.CARAFENaiveFunction.backward", "images.carafe_naive_backward"),
    _Obstacle("carafe.CARAFEFunction.backward", "images.carafe_backward"),
    _Obstacle("focal_loss.SoftmaxFocalLossFunction.forward", "images.softmax_focal_loss_forward"),
    _Obstacle("sync_bn.SyncBatchNormFunction.forward", "batch_norm.sync_batch_norm_forward"),
    _Obstacle("bias_act.bias_act", "images.bias_act", True),
    _Obstacle("upfirdn2d.upfirdn2d", "images.upfirdn2d", True),
    _Obstacle("filtered_lrelu.filtered_lrelu", "images.filtered_lrelu", True),
    _Obstacle("fused_bias_leakyrelu.fused_bias_leakyrelu", "images.fused_bias_leakyrelu", True),
)


class DeviceNeutralOperators(Patch):
    """Lets the functions of ``mmcv.ops`` run where their tensors are, and repairs ``fused_indice_conv``."""

    name = "device_neutral_operators"
    library = "mmcv"
    why = (
        "furthest_point_sample, knn, points_in_boxes and carafe_naive (in mmcv 1.x more) ask torch.cuda for memory or a"
        " device; SyncBatchNorm takes tensors of the CPU and CUDA only; bias_act, upfirdn2d, filtered_lrelu and"
        " fused_bias_leakyrelu pass mmcv._ext by unless on CUDA; sparse_ops.fused_indice_conv reads the attribute"
        " filters.dtypes, which no tensor has"
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
        precheck=has_a_portable_way if obstacle.needs_portable_extension else asks_for_cuda,
    )


def no_tensor_is_on_cuda(*args: Any, **kwargs: Any) -> bool:
    """False where an argument is a CUDA tensor: upstream's own code is made for it."""
    return not any(getattr(value, "is_cuda", False) for value in (*args, *kwargs.values()))


def has_a_portable_way(target: str) -> bool:
    """Whether upstream passes the extension by unless on CUDA, and the extension here takes tensors of any device."""
    return asks_for_cuda(target) and extension_is_portable()


def extension_is_portable() -> bool:
    """Whether ``mmcv._ext`` is the one in plain PyTorch, which takes tensors of any device."""
    import mmcv._ext as extension

    function: Callable[..., Any] = extension.bbox_overlaps
    return (getattr(function, "__module__", None) or "").startswith("mmcv_patches.")
