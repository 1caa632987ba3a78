"""Reductions by index that several operators share."""

from __future__ import annotations

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
    return target.scatter_reduce_(0, index.unsqueeze(1).expand_as(source), source, reduce)
