"""Weighted sums of table rows, and their gradients: the one primitive under every sampling operator here.

Sampling a feature map at fractional points, whether for deformable convolution, RoI align or deformable
attention, is one product ``S @ rows`` of a sparse matrix with the pixels of the map, one pixel a row: each
output row is a *bag* of a few pixels times their interpolation weights. Nothing of size bags x members x
channels is ever held. On the CPU and on CUDA the products run in ``torch.nn.functional.embedding_bag``,
elsewhere in gathers and ``index_add_`` over chunks.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from .chunking import row_ranges

__all__ = [
    "add_to_rows",
    "add_weighted_row_sum_transposed",
    "sum_by_row",
    "weighted_row_sum",
    "weighted_row_sum_weight_gradient",
]

DEVICES_WITH_EMBEDDING_BAG = ("cpu", "cuda")
#: The number of mode "sum" in the operators under ``torch.nn.functional.embedding_bag``.
_SUM = 0
#: On a CPU, sorting the members does not pay for rows of so few channels.
_NARROW = 32
#: Elements of the gathered rows that one chunk holds where there is no embedding_bag (1 MiB of float32).
GATHERED_ELEMENTS = 1 << 18


def weighted_row_sum(rows: Tensor, index: Tensor, weight: Tensor) -> Tensor:
    """``out[b] = sum_m weight[b, m] * rows[index[b, m]]``.

    ``rows`` is (R, C), ``index`` (B, M) int32 within R, ``weight`` (B, M) in the dtype of ``rows``; the
    result is (B, C).
    """
    bags, members = index.shape
    if index.numel() == 0 or rows.numel() == 0:
        return rows.new_zeros(bags, rows.shape[1])
    if rows.device.type in DEVICES_WITH_EMBEDDING_BAG:
        return functional.embedding_bag(index, rows, mode="sum", per_sample_weights=weight)
    out = rows.new_empty(bags, rows.shape[1])
    for start, stop in row_ranges(bags, members * rows.shape[1], GATHERED_ELEMENTS):
        out[start:stop] = (_gather(rows, index[start:stop]) * weight[start:stop, :, None]).sum(1)
    return out


def weighted_row_sum_weight_gradient(grad: Tensor, rows: Tensor, index: Tensor) -> Tensor:
    """The gradient of :func:`weighted_row_sum` for ``weight``: ``out[b, m] = <grad[b], rows[index[b, m]]>``.

    ``grad`` is (B, C); the result is (B, M).
    """
    bags, members = index.shape
    if index.numel() == 0 or rows.numel() == 0:
        return rows.new_zeros(bags, members)
    if rows.device.type in DEVICES_WITH_EMBEDDING_BAG:
        bag = torch.arange(bags, dtype=index.dtype, device=index.device)
        return torch.ops.aten._embedding_bag_per_sample_weights_backward(
            grad.contiguous(),
            rows.contiguous(),
            index.reshape(-1),
            bag * members,
            bag.repeat_interleave(members),
            _SUM,
        ).view(bags, members)
    out = rows.new_empty(bags, members)
    for start, stop in row_ranges(bags, members * rows.shape[1], GATHERED_ELEMENTS):
        out[start:stop] = (_gather(rows, index[start:stop]) * grad[start:stop, None]).sum(2)
    return out


def add_weighted_row_sum_transposed(out: Tensor, grad: Tensor, index: Tensor, weight: Tensor) -> None:
    """Add the gradient of :func:`weighted_row_sum` for ``rows`` to ``out``.

    ``out[index[b, m]] += weight[b, m] * grad[b]`` for every b and m. ``out`` is (R, C), written in place;
    ``grad`` (B, C), ``index`` and ``weight`` (B, M).
    """
    bag = torch.arange(len(index), dtype=index.dtype, device=index.device).repeat_interleave(index.shape[1])
    add_to_rows(out, grad, index.reshape(-1), weight.reshape(-1), bag)


def add_to_rows(out: Tensor, grad: Tensor, index: Tensor, weight: Tensor, bag: Tensor) -> None:
    """``out[index[e]] += weight[e] * grad[bag[e]]`` for every e; ``index``, ``weight`` and ``bag`` are (E,)."""
    narrow = out.device.type == "cpu" and out.shape[1] <= _NARROW
    if out.device.type in DEVICES_WITH_EMBEDDING_BAG and not narrow:
        rows, sums = sum_by_row(grad, index, weight, bag)
        out.index_add_(0, rows.long(), sums)
        return
    for start, stop in row_ranges(len(index), grad.shape[1], GATHERED_ELEMENTS):
        contribution = grad.index_select(0, bag[start:stop]).mul_(weight[start:stop, None])
        # With an int32 index, index_add_ takes five times as long on a CPU.
        out.index_add_(0, index[start:stop].long(), contribution)


def sum_by_row(grad: Tensor, index: Tensor, weight: Tensor, bag: Tensor) -> tuple[Tensor, Tensor]:
    """The rows that occur in ``index``, each once, and what :func:`add_to_rows` adds to each of them.

    On CUDA, too, the sum of each row has a fixed order, since the members are sorted by row: the result is
    the same in every run.
    """
    if index.numel() == 0:
        return index, grad.new_zeros(0, grad.shape[1])
    if grad.device.type not in DEVICES_WITH_EMBEDDING_BAG:
        rows, place = torch.unique(index, return_inverse=True)
        sums = grad.new_zeros(len(rows), grad.shape[1])
        add_to_rows(sums, grad, place, weight, bag)
        return rows, sums
    sorted_index, order = torch.sort(index, stable=True)
    rows, counts = torch.unique_consecutive(sorted_index, return_counts=True)
    offsets = (counts.cumsum(0) - counts).to(bag.dtype)
    sums = functional.embedding_bag(bag[order], grad, offsets, mode="sum", per_sample_weights=weight[order])
    return rows, sums


def _gather(rows: Tensor, index: Tensor) -> Tensor:
    return rows.index_select(0, index.reshape(-1)).view(*index.shape, -1)
