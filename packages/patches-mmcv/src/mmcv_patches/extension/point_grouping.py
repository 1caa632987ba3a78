"""Grouping: the features of the neighbours of each point, side by side.

Facts about behaviour: mmcv 2.1.0, ``ops/csrc/common/cuda/{group_points,stack_group_points}_cuda_kernel.cuh``.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = [
    "group_points_backward",
    "group_points_forward",
    "stack_group_points_backward",
    "stack_group_points_forward",
]


def group_points_forward(
    points_tensor: Tensor,
    idx_tensor: Tensor,
    out_tensor: Tensor,
    b: int,
    c: int,
    n: int,
    npoints: int,
    nsample: int,
) -> None:
    """Group features: ``out[b, c, j, s] = points[b, c, idx[b, j, s]]``.

    Args:
        points_tensor: (b, c, n).
        idx_tensor: (b, npoints, nsample) int32.
        out_tensor: output, (b, c, npoints, nsample).
    """
    index = idx_tensor.flatten(1).long().unsqueeze(1).expand(-1, points_tensor.shape[1], -1)
    out_tensor.copy_(points_tensor.gather(2, index).view_as(out_tensor))


def group_points_backward(
    grad_out_tensor: Tensor,
    idx_tensor: Tensor,
    grad_points_tensor: Tensor,
    b: int,
    c: int,
    n: int,
    npoints: int,
    nsample: int,
) -> None:
    """Add the gradient of :func:`group_points_forward` to ``grad_points_tensor``.

    Args:
        grad_out_tensor: (b, c, npoints, nsample).
        idx_tensor: (b, npoints, nsample) int32.
        grad_points_tensor: (b, c, n), added to.
    """
    gradient = grad_out_tensor.flatten(2)
    index = idx_tensor.flatten(1).long().unsqueeze(1).expand_as(gradient)
    grad_points_tensor.scatter_add_(2, index, gradient)


def stack_group_points_forward(
    features_tensor: Tensor,
    features_batch_cnt_tensor: Tensor,
    idx_tensor: Tensor,
    idx_batch_cnt_tensor: Tensor,
    out_tensor: Tensor,
    b: int,
    c: int,
    m: int,
    nsample: int,
) -> None:
    """Group features of stacked samples: ``out[j, c, s] = features[first of j's sample + idx[j, s], c]``.

    Where an index is outside its sample, the output keeps its value.

    Args:
        features_tensor: features of all samples, (N1 + N2 + ..., c).
        features_batch_cnt_tensor: (b,) int32, N1, N2, ...
        idx_tensor: (M1 + M2 + ..., nsample) int32, counted within the sample.
        idx_batch_cnt_tensor: (b,) int32, M1, M2, ...
        out_tensor: output, (M1 + M2 + ..., c, nsample).
    """
    rows, valid = _rows_in_stack(idx_tensor, idx_batch_cnt_tensor, features_batch_cnt_tensor)
    places = out_tensor.transpose(1, 2)
    places[valid] = features_tensor[rows[valid]]


def stack_group_points_backward(
    grad_out_tensor: Tensor,
    idx_tensor: Tensor,
    idx_batch_cnt_tensor: Tensor,
    features_batch_cnt_tensor: Tensor,
    grad_features_tensor: Tensor,
    b: int,
    c: int,
    m: int,
    n: int,
    nsample: int,
) -> None:
    """Add the gradient of :func:`stack_group_points_forward` to ``grad_features_tensor``.

    Args:
        grad_out_tensor: (M1 + M2 + ..., c, nsample).
        idx_tensor: (M1 + M2 + ..., nsample) int32.
        idx_batch_cnt_tensor: (b,) int32.
        features_batch_cnt_tensor: (b,) int32.
        grad_features_tensor: (N1 + N2 + ..., c), added to.
    """
    rows, valid = _rows_in_stack(idx_tensor, idx_batch_cnt_tensor, features_batch_cnt_tensor)
    grad_features_tensor.index_add_(0, rows[valid], grad_out_tensor.transpose(1, 2)[valid])


def _rows_in_stack(indices: Tensor, index_counts: Tensor, feature_counts: Tensor) -> tuple[Tensor, Tensor]:
    """Turn indices within samples into rows of the stack; say which of them lie in their sample."""
    index_ends = index_counts.long().cumsum(0)
    samples = torch.searchsorted(
        index_ends, torch.arange(indices.shape[0], device=indices.device), right=True
    ).clamp_(max=index_ends.numel() - 1)
    feature_counts = feature_counts.long()
    starts = feature_counts.cumsum(0) - feature_counts
    indices = indices.long()
    valid = (indices >= 0) & (indices < feature_counts[samples].unsqueeze(1))
    return indices + starts[samples].unsqueeze(1), valid
