"""Reductions by index that several operators share."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["scatter_extreme_"]


def scatter_extreme_(target: Tensor, index: Tensor, source: Tensor, reduce: str) -> Tensor:
    """Reduce the rows of ``source`` into the rows ``index`` of ``target``, with what is there, in place.

    Args:
        target: (M, C).
        index: (N,) int64, rows of ``target``.
        source: (N, C), of the dtype of ``target``.
        reduce: ``"amax"`` or ``"amin"``.
    """
    if hasattr(target, "scatter_reduce_"):
        return target.scatter_reduce_(0, index.unsqueeze(1).expand_as(source), source, reduce)
    return _scatter_extreme_by_sorting(target, index, source, reduce)


def _scatter_extreme_by_sorting(target: Tensor, index: Tensor, source: Tensor, reduce: str) -> Tensor:
    """The same for torch before 1.12: after each pass a row holds the extreme of twice as many rows of its group."""
    extreme = torch.maximum if reduce == "amax" else torch.minimum
    index, order = index.sort()
    rows = source[order]
    distance = 1
    while distance < rows.shape[0]:
        together = index[distance:] == index[:-distance]
        if not bool(together.any()):
            break
        combined = extreme(rows[:-distance], rows[distance:])
        rows[:-distance] = torch.where(together.unsqueeze(1), combined, rows[:-distance])
        distance *= 2
    begins = torch.ones_like(index, dtype=torch.bool)
    begins[1:] = index[1:] != index[:-1]
    places = index[begins]
    target[places] = extreme(target[places], rows[begins])
    return target
