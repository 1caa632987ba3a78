"""Reductions of the elements of a tensor into groups that a sorted index names.

Shapes, for all functions: ``index`` (sorted integers, from 0) is (..., N), its leading dimensions broadcast to those
of ``src``, which is (..., N, ...). The result is (..., M, ...), with M as in :mod:`.scatter`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .scatter import scatter_max, scatter_min, scatter_sum


def segment_sum_coo(
    src: Tensor, index: Tensor, out: Tensor | None = None, dim_size: int | None = None
) -> Tensor:
    """The sum of each group; 0 for an empty one."""
    return scatter_sum(*_aligned(src, index), out, dim_size)


def segment_add_coo(
    src: Tensor, index: Tensor, out: Tensor | None = None, dim_size: int | None = None
) -> Tensor:
    """Another name of :func:`segment_sum_coo`."""
    return segment_sum_coo(src, index, out, dim_size)


def segment_mean_coo(
    src: Tensor, index: Tensor, out: Tensor | None = None, dim_size: int | None = None
) -> Tensor:
    """The mean of each group, of integers rounded towards zero; 0 for an empty one."""
    src, index, dim = _aligned(src, index)
    total = scatter_sum(src, index, dim, out, dim_size)
    count = scatter_sum(torch.ones_like(src), index, dim, dim_size=total.size(dim)).clamp_(min=1)
    return total.div_(count, rounding_mode=None if src.is_floating_point() else "trunc")


def segment_min_coo(
    src: Tensor, index: Tensor, out: Tensor | None = None, dim_size: int | None = None
) -> tuple[Tensor, Tensor]:
    """The minimum of each group and its position in ``src``; 0 and N for an empty one."""
    return scatter_min(*_aligned(src, index), out, dim_size)


def segment_max_coo(
    src: Tensor, index: Tensor, out: Tensor | None = None, dim_size: int | None = None
) -> tuple[Tensor, Tensor]:
    """The maximum of each group and its position in ``src``; 0 and N for an empty one."""
    return scatter_max(*_aligned(src, index), out, dim_size)


def segment_coo(
    src: Tensor,
    index: Tensor,
    out: Tensor | None = None,
    dim_size: int | None = None,
    reduce: str = "sum",
) -> Tensor:
    """Reduce by ``sum`` (``add``), ``mean``, ``min`` or ``max``; ValueError for anything else."""
    if reduce in ("min", "max"):
        return (segment_min_coo if reduce == "min" else segment_max_coo)(src, index, out, dim_size)[0]
    reductions = {"sum": segment_sum_coo, "add": segment_sum_coo, "mean": segment_mean_coo}
    if reduce not in reductions:
        raise ValueError(f"reduce must be sum, add, mean, min or max, got {reduce!r}")
    return reductions[reduce](src, index, out, dim_size)


def gather_coo(src: Tensor, index: Tensor, out: Tensor | None = None) -> Tensor:
    """The entry of ``src``, (..., M, ...), of each group that ``index``, (..., N), names: (..., N, ...)."""
    dim = index.dim() - 1
    index = index.expand(*src.shape[:dim], -1)
    index = index.view(*index.shape, *[1] * (src.dim() - index.dim()))
    gathered = src.gather(dim, index.expand(*index.shape[: dim + 1], *src.shape[dim + 1 :]))
    return gathered if out is None else out.copy_(gathered)


def _aligned(src: Tensor, index: Tensor) -> tuple[Tensor, Tensor, int]:
    """``src``, the index with as many dimensions, and the dimension that it counts along."""
    dim = index.dim() - 1
    index = index.expand(src.shape[: dim + 1])
    return src, index.view(*index.shape, *[1] * (src.dim() - index.dim())).expand_as(src), dim
