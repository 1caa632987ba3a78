"""Replacements for functions of ``mmcv.ops`` over points and boxes. Arguments, results and errors are upstream's."""

from __future__ import annotations

from typing import Any

import mmcv._ext as extension
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

__all__ = [
    "furthest_point_sampling_forward",
    "fused_indice_conv",
    "gather_backward",
    "gather_forward",
    "group_backward",
    "group_forward",
    "knn_forward",
    "points_in_boxes_all",
    "points_in_boxes_part",
    "points_in_polygons",
    "three_interpolate_backward",
    "three_interpolate_forward",
    "three_nn_forward",
]


def furthest_point_sampling_forward(ctx: Any, points_xyz: Tensor, num_points: int) -> Tensor:
    """Indices (B, num_points) int32 of points (B, N, 3), each the furthest from those before it."""
    assert points_xyz.is_contiguous()
    batch, count = points_xyz.shape[:2]
    output = points_xyz.new_empty((batch, num_points), dtype=torch.int32)
    distance = points_xyz.new_full((batch, count), 1e10, dtype=torch.float32)
    extension.furthest_point_sampling_forward(points_xyz, distance, output, b=batch, n=count, m=num_points)
    ctx.mark_non_differentiable(output)
    return output


def knn_forward(
    ctx: Any, k: int, xyz: Tensor, center_xyz: Tensor | None = None, transposed: bool = False
) -> Tensor:
    """Indices (B, k, M) int32 of the ``k`` points of ``xyz`` (B, N, 3) nearest to each of ``center_xyz`` (B, M, 3)."""
    assert 0 < k < 100, "k should be in range(0, 100)"
    if center_xyz is None:
        center_xyz = xyz
    if transposed:
        xyz, center_xyz = xyz.transpose(2, 1).contiguous(), center_xyz.transpose(2, 1).contiguous()
    assert xyz.is_contiguous()
    assert center_xyz.is_contiguous()
    assert center_xyz.device == xyz.device, "center_xyz and xyz should be put on the same device"
    batch, centers, _ = center_xyz.shape
    indices = center_xyz.new_zeros((batch, centers, k), dtype=torch.int32)
    distances = center_xyz.new_zeros((batch, centers, k), dtype=torch.float32)
    extension.knn_forward(xyz, center_xyz, indices, distances, b=batch, n=xyz.shape[1], m=centers, nsample=k)
    indices = indices.transpose(2, 1).contiguous()
    ctx.mark_non_differentiable(indices)
    return indices


def points_in_boxes_part(points: Tensor, boxes: Tensor) -> Tensor:
    """The box that each point is in, -1 for none: (B, M) int32 for points (B, M, 3) and boxes (B, T, 7)."""
    _check_points_and_boxes(points, boxes)
    output = points.new_full(points.shape[:2], -1, dtype=torch.int32)
    extension.points_in_boxes_part_forward(boxes.contiguous(), points.contiguous(), output)
    return output


def points_in_boxes_all(points: Tensor, boxes: Tensor) -> Tensor:
    """1 where a point is in a box: (B, M, T) int32 for points (B, M, 3) and boxes (B, T, 7)."""
    _check_points_and_boxes(points, boxes)
    output = points.new_zeros((*points.shape[:2], boxes.shape[1]), dtype=torch.int32)
    extension.points_in_boxes_all_forward(boxes.contiguous(), points.contiguous(), output)
    return output


def _check_points_and_boxes(points: Tensor, boxes: Tensor) -> None:
    assert points.shape[0] == boxes.shape[0], (
        f"Points and boxes should have the same batch size, but got {points.shape[0]} and {boxes.shape[0]}"
    )
    assert boxes.shape[2] == 7, f"boxes dimension should be 7, but got unexpected shape {boxes.shape[2]}"
    assert points.shape[2] == 3, f"points dimension should be 3, but got unexpected shape {points.shape[2]}"
    assert points.device == boxes.device, "Points and boxes should be put on the same device"


def points_in_polygons(points: Tensor, polygons: Tensor) -> Tensor:
    """1 where a point is in a polygon: (B, M) float32 for points (B, 2) and polygons (M, 8)."""
    assert points.shape[1] == 2, f"points dimension should be 2, but got unexpected shape {points.shape[1]}"
    assert polygons.shape[1] == 8, (
        f"polygons dimension should be 8, but got unexpected shape {polygons.shape[1]}"
    )
    output = points.new_zeros((points.shape[0], polygons.shape[0]), dtype=torch.float32)
    extension.points_in_polygons_forward(points.contiguous(), polygons.contiguous(), output)
    return output


def fused_indice_conv(
    features: Tensor,
    filters: Tensor,
    bias: Tensor,
    indice_pairs: Tensor,
    indice_pair_num: Tensor,
    num_activate_out: int,
    inverse: bool,
    subm: bool,
) -> Tensor:
    """Sparse convolution with a bias; NotImplementedError for filters other than float32 and float16."""
    if filters.dtype not in (torch.float32, torch.float16):
        raise NotImplementedError(
            f"fused_indice_conv: found filters of {filters.dtype}, expected float32 or float16"
        )
    return extension.fused_indice_conv_forward(
        features, filters, bias, indice_pairs, indice_pair_num, num_activate_out, int(inverse), int(subm)
    )


def gather_forward(ctx: Any, features: Tensor, indices: Tensor) -> Tensor:
    """(B, C, M) float32, the columns ``indices`` (B, M) of ``features`` (B, C, N)."""
    assert features.is_contiguous()
    assert indices.is_contiguous()
    batch, count = indices.shape
    _, channels, points = features.shape
    output = features.new_empty((batch, channels, count), dtype=torch.float32)
    extension.gather_points_forward(features, indices, output, b=batch, c=channels, n=points, npoints=count)
    ctx.for_backwards = (indices, channels, points)
    ctx.mark_non_differentiable(indices)
    return output


@once_differentiable
def gather_backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor, None]:
    """The gradient of :func:`gather_forward` by ``features``."""
    indices, channels, points = ctx.for_backwards
    batch, count = indices.shape
    grad = grad_out.new_zeros((batch, channels, points), dtype=torch.float32)
    extension.gather_points_backward(
        grad_out.contiguous(), indices, grad, b=batch, c=channels, n=points, npoints=count
    )
    return grad, None


def group_forward(
    ctx: Any,
    features: Tensor,
    indices: Tensor,
    features_batch_cnt: Tensor | None = None,
    indices_batch_cnt: Tensor | None = None,
) -> Tensor:
    """(B, C, M, S) float32, the columns ``indices`` (B, M, S) of ``features`` (B, C, N).

    With the counts of stacked samples, which mmcv takes since 1.7, (M1 + M2 + ..., C, S) of the rows ``indices``
    (M1 + M2 + ..., S), counted within each sample, of ``features`` (N1 + N2 + ..., C).
    """
    features, indices = features.contiguous(), indices.contiguous()
    if features_batch_cnt is not None and indices_batch_cnt is not None:
        (points, channels), (groups, samples), batch = features.shape, indices.shape, len(indices_batch_cnt)
        output = features.new_zeros((groups, channels, samples))
        extension.stack_group_points_forward(
            features, features_batch_cnt, indices, indices_batch_cnt, output,
            b=batch, m=groups, c=channels, nsample=samples,
        )  # fmt: skip
        ctx.for_backwards = (batch, points, indices, features_batch_cnt, indices_batch_cnt)
        return output
    batch, groups, samples = indices.shape
    _, channels, points = features.shape
    output = features.new_empty((batch, channels, groups, samples), dtype=torch.float32)
    extension.group_points_forward(
        features, indices, output, b=batch, c=channels, n=points, npoints=groups, nsample=samples
    )
    ctx.for_backwards = (indices, points)
    return output


@once_differentiable
def group_backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor | None, ...]:
    """The gradient of :func:`group_forward` by ``features``."""
    grad_out = grad_out.contiguous()
    if len(ctx.for_backwards) == 2:
        indices, points = ctx.for_backwards
        batch, channels, groups, samples = grad_out.shape
        grad = grad_out.new_zeros((batch, channels, points), dtype=torch.float32)
        extension.group_points_backward(
            grad_out, indices, grad, b=batch, c=channels, n=points, npoints=groups, nsample=samples
        )
        return grad, None
    batch, points, indices, features_batch_cnt, indices_batch_cnt = ctx.for_backwards
    groups, channels, samples = grad_out.shape
    grad = grad_out.new_zeros((points, channels))
    extension.stack_group_points_backward(
        grad_out, indices, indices_batch_cnt, features_batch_cnt, grad,
        b=batch, c=channels, m=groups, n=points, nsample=samples,
    )  # fmt: skip
    return grad, None, None, None


def three_nn_forward(ctx: Any, target: Tensor, source: Tensor) -> tuple[Tensor, Tensor]:
    """Distances (B, N, 3) float32 and indices int32 of the three points of ``source`` nearest to each target."""
    target, source = target.contiguous(), source.contiguous()
    batch, count, _ = target.shape
    squares = target.new_empty((batch, count, 3), dtype=torch.float32)
    indices = target.new_empty((batch, count, 3), dtype=torch.int32)
    extension.three_nn_forward(target, source, squares, indices, b=batch, n=count, m=source.shape[1])
    ctx.mark_non_differentiable(indices)
    return squares.sqrt(), indices


def three_interpolate_forward(ctx: Any, features: Tensor, indices: Tensor, weight: Tensor) -> Tensor:
    """(B, C, N) float32, the weighted sums of three columns of ``features`` (B, C, M)."""
    assert features.is_contiguous()
    assert indices.is_contiguous()
    assert weight.is_contiguous()
    batch, channels, points = features.shape
    count = indices.shape[1]
    ctx.three_interpolate_for_backward = (indices, weight, points)
    output = features.new_empty((batch, channels, count), dtype=torch.float32)
    extension.three_interpolate_forward(
        features, indices, weight, output, b=batch, c=channels, m=points, n=count
    )
    return output


@once_differentiable
def three_interpolate_backward(ctx: Any, grad_out: Tensor) -> tuple[Tensor, None, None]:
    """The gradient of :func:`three_interpolate_forward` by ``features``."""
    indices, weight, points = ctx.three_interpolate_for_backward
    batch, channels, count = grad_out.shape
    grad = grad_out.new_zeros((batch, channels, points), dtype=torch.float32)
    extension.three_interpolate_backward(
        grad_out.contiguous(), indices, weight, grad, b=batch, c=channels, n=count, m=points
    )
    return grad, None, None
