"""Assembly of neighbour features by predicted scores (PAConv).

``out[b, o, n, k] = sum over m of scores[b, n, k, m] * (points[b, j, m, o] - centers[b, i, m, o])`` where
``j`` is the k-th neighbour of point n and ``i`` its first, which is the centre itself (Xu et al., "PAConv",
2021, supplement D). Facts about behaviour: mmcv 2.1.0,
``ops/csrc/common/cuda/assign_score_withk_cuda_kernel.cuh``, where ``aggregate`` has no effect either.
"""

from __future__ import annotations

from typing import Iterator, NamedTuple

from torch import Tensor

from .chunking import row_ranges

__all__ = ["assign_score_withk_backward", "assign_score_withk_forward"]


class _Neighbourhoods(NamedTuple):
    """Some neighbourhoods of one sample."""

    sample: int
    start: int
    stop: int
    #: (n, K) int64, the neighbours, 0 where the given index is outside.
    neighbours: Tensor
    #: (n,) int64, the centres.
    centres: Tensor
    #: (n, K) bool, whether the given index is inside.
    valid: Tensor


def assign_score_withk_forward(
    points: Tensor,
    centers: Tensor,
    scores: Tensor,
    knn_idx: Tensor,
    output: Tensor,
    B: int,
    N0: int,
    N1: int,
    M: int,
    K: int,
    O: int,  # noqa: E741
    aggregate: int,
) -> None:
    """Add the assembled features to ``output``; a neighbour with an index outside adds nothing.

    Args:
        points: (B, N0, M, O), features of the points under each weight matrix.
        centers: (B, N0, M, O), the same of the centres.
        scores: (B, N1, K, M).
        knn_idx: (B, N1, K) int64, the centre first.
        output: (B, O, N1, K), added to.
    """
    for part in _neighbourhoods(knn_idx, N0, M * O):
        relative = points[part.sample][part.neighbours] - centers[part.sample][part.centres].unsqueeze(1)
        weights = scores[part.sample, part.start : part.stop]
        assembled = weights.unsqueeze(2).matmul(relative).squeeze(2)
        assembled = assembled.masked_fill(~part.valid.unsqueeze(2), 0)
        output[part.sample, :, part.start : part.stop] += assembled.permute(2, 0, 1)


def assign_score_withk_backward(
    grad_out: Tensor,
    points: Tensor,
    centers: Tensor,
    scores: Tensor,
    knn_idx: Tensor,
    grad_points: Tensor,
    grad_centers: Tensor,
    grad_scores: Tensor,
    B: int,
    N0: int,
    N1: int,
    M: int,
    K: int,
    O: int,  # noqa: E741
    aggregate: int,
) -> None:
    """Add the gradients of :func:`assign_score_withk_forward` to the three gradients given.

    Args:
        grad_out: (B, O, N1, K).
        points, centers, scores, knn_idx: as in the forward pass.
        grad_points: (B, N0, M, O), added to.
        grad_centers: (B, N0, M, O), added to.
        grad_scores: (B, N1, K, M), added to.
    """
    for part in _neighbourhoods(knn_idx, N0, M * O):
        relative = points[part.sample][part.neighbours] - centers[part.sample][part.centres].unsqueeze(1)
        gradient = grad_out[part.sample, :, part.start : part.stop].permute(1, 2, 0)
        outside = ~part.valid.unsqueeze(2)
        gradient = gradient.masked_fill(outside, 0)
        grad_weights = relative.matmul(gradient.unsqueeze(3)).squeeze(3)
        grad_scores[part.sample, part.start : part.stop] += grad_weights.masked_fill(outside, 0)

        weights = scores[part.sample, part.start : part.stop].unsqueeze(3)
        products = weights * gradient.unsqueeze(2)
        grad_points[part.sample].index_add_(0, part.neighbours.flatten(), products.flatten(0, 1))
        grad_centers[part.sample].index_add_(0, part.centres, products.sum(1).neg_())


def _neighbourhoods(knn_idx: Tensor, num_points: int, features: int) -> Iterator[_Neighbourhoods]:
    for sample in range(knn_idx.shape[0]):
        for start, stop in row_ranges(knn_idx.shape[1], 2 * knn_idx.shape[2] * features):
            indices = knn_idx[sample, start:stop].long()
            valid = (indices >= 0) & (indices < num_points)
            indices = indices.masked_fill(~valid, 0)
            yield _Neighbourhoods(sample, start, stop, indices, indices[:, 0], valid)
