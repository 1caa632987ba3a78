"""Interpolation of point features from three neighbours.

``out[n] = sum over k of weight[n, k] * points[idx[n, k]]`` (Qi et al., "PointNet++", 2017, section 3.4); the
sum is in float32 for half. Facts about behaviour: mmcv 2.1.0,
``ops/csrc/common/cuda/three_interpolate_cuda_kernel.cuh``.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["three_interpolate_backward", "three_interpolate_forward"]


def three_interpolate_forward(
    points_tensor: Tensor,
    idx_tensor: Tensor,
    weight_tensor: Tensor,
    out_tensor: Tensor,
    b: int,
    c: int,
    m: int,
    n: int,
) -> None:
    """Interpolate features.

    Args:
        points_tensor: features of the known points, (b, c, m).
        idx_tensor: (b, n, 3) int32, three known points for each unknown one.
        weight_tensor: (b, n, 3), their weights.
        out_tensor: output, (b, c, n).
    """
    index = idx_tensor.long()
    dtype = torch.promote_types(points_tensor.dtype, torch.float32)
    interpolated = torch.zeros(out_tensor.shape, dtype=dtype, device=out_tensor.device)
    for neighbour in range(index.shape[2]):
        features = points_tensor.gather(2, index[:, None, :, neighbour].expand_as(out_tensor))
        interpolated.addcmul_(features.to(dtype), weight_tensor[:, None, :, neighbour].to(dtype))
    out_tensor.copy_(interpolated)


def three_interpolate_backward(
    grad_out_tensor: Tensor,
    idx_tensor: Tensor,
    weight_tensor: Tensor,
    grad_points_tensor: Tensor,
    b: int,
    c: int,
    n: int,
    m: int,
) -> None:
    """Add the gradient of :func:`three_interpolate_forward` to ``grad_points_tensor``.

    Args:
        grad_out_tensor: (b, c, n).
        idx_tensor: (b, n, 3) int32.
        weight_tensor: (b, n, 3).
        grad_points_tensor: (b, c, m), added to.
    """
    index = idx_tensor.long()
    for neighbour in range(index.shape[2]):
        grad_points_tensor.scatter_add_(
            2,
            index[:, None, :, neighbour].expand_as(grad_out_tensor),
            grad_out_tensor * weight_tensor[:, None, :, neighbour],
        )
