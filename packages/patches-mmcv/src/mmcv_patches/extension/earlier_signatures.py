"""Argument lists that functions of ``mmcv._ext`` had in mmcv 1.x, where those of 2.x will not do.

Read in ``pybind.cpp`` of mmcv 1.4.0, 1.5.3 and 1.7.2. A call is taken for an earlier one by the number of its
arguments, by a keyword that the present function does not have, or where an index stands now by a tensor that can be
none; mmcv's own callers leave no doubt.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable

import torch
from torch import Tensor

__all__ = ["accept_earlier_signature"]


def accept_earlier_signature(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` itself, or a function that also takes the arguments of an earlier mmcv."""
    earlier = _EARLIER.get(name)
    if earlier is None:
        return function
    present_names = list(inspect.signature(function).parameters)
    earlier_names = list(inspect.signature(earlier).parameters)[1:]
    position_of_index = _INDICES.get(name)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        given = len(args) + len(kwargs)
        is_present = given == len(present_names) and kwargs.keys() <= set(present_names)
        if position_of_index is not None and len(args) > position_of_index:
            is_present = is_present and not args[position_of_index].is_floating_point()
        if given == len(earlier_names) and kwargs.keys() <= set(earlier_names) and not is_present:
            return earlier(function, *args, **kwargs)
        return function(*args, **kwargs)

    return call


def _upfirdn2d(
    function: Callable[..., Tensor],
    input: Tensor,
    kernel: Tensor,
    up_x: int,
    up_y: int,
    down_x: int,
    down_y: int,
    pad_x0: int,
    pad_x1: int,
    pad_y0: int,
    pad_y1: int,
) -> Tensor:
    """1.x: images are (N, H, W, C), always a convolution without gain."""
    images = input.permute(0, 3, 1, 2)
    output = function(images, kernel, up_x, up_y, down_x, down_y, pad_x0, pad_x1, pad_y0, pad_y1, False, 1.0)
    return output.permute(0, 2, 3, 1).contiguous()


def _nms_rotated(
    function: Callable[..., Tensor],
    dets: Tensor,
    scores: Tensor,
    order: Tensor,
    dets_sorted: Tensor,
    iou_threshold: float,
    multi_label: int,
) -> Tensor:
    """1.4: labels are the last column of the boxes only."""
    labels = dets[:, 5] if multi_label else scores.new_empty(0, dtype=torch.int)
    return function(dets, scores, order, dets_sorted, labels, iou_threshold, multi_label)


def _hard_voxelize_forward(
    function: Callable[..., None],
    points: Tensor,
    voxel_size: Tensor,
    coors_range: Tensor,
    voxels: Tensor,
    coors: Tensor,
    num_points_per_voxel: Tensor,
    voxel_num: Tensor,
    max_points: int,
    max_voxels: int,
    NDim: int,
) -> None:
    """1.4: always deterministic."""
    function(
        points,
        voxel_size,
        coors_range,
        voxels,
        coors,
        num_points_per_voxel,
        voxel_num,
        max_points,
        max_voxels,
        NDim,
        deterministic=True,
    )


def _roi_align_rotated_forward(
    function: Callable[..., None],
    input: Tensor,
    rois: Tensor,
    output: Tensor,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
    sample_num: int,
    aligned: bool,
    clockwise: bool,
) -> None:
    """1.4: ``sampling_ratio`` was called ``sample_num``."""
    function(input, rois, output, pooled_height, pooled_width, spatial_scale, sample_num, aligned, clockwise)


def _roi_align_rotated_backward(
    function: Callable[..., None],
    rois: Tensor,
    grad_input: Tensor,
    grad_output: Tensor,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
    sample_num: int,
    aligned: bool,
    clockwise: bool,
) -> None:
    """1.4: as forward."""
    function(
        rois,
        grad_input,
        grad_output,
        pooled_height,
        pooled_width,
        spatial_scale,
        sample_num,
        aligned,
        clockwise,
    )


def _chamfer_distance_backward(
    function: Callable[..., None],
    xyz1: Tensor,
    xyz2: Tensor,
    gradxyz1: Tensor,
    gradxyz2: Tensor,
    graddist1: Tensor,
    graddist2: Tensor,
    idx1: Tensor,
    idx2: Tensor,
) -> None:
    """1.5: what is written stands before what is read."""
    function(xyz1, xyz2, idx1, idx2, graddist1, graddist2, gradxyz1, gradxyz2)


_EARLIER: dict[str, Callable[..., Any]] = {
    "chamfer_distance_backward": _chamfer_distance_backward,
    "upfirdn2d": _upfirdn2d,
    "nms_rotated": _nms_rotated,
    "hard_voxelize_forward": _hard_voxelize_forward,
    "roi_align_rotated_forward": _roi_align_rotated_forward,
    "roi_align_rotated_backward": _roi_align_rotated_backward,
}

#: Where a function that always had as many arguments takes indices now.
_INDICES = {"chamfer_distance_backward": 2}
