"""Reductions of the elements of a tensor into groups that an index names.

Shapes, for all functions: ``src`` is (..., N, ...) with N at dimension ``dim``; ``index`` (integers, from 0) has the
shape of ``src``, or broadcasts to it, or is (N,). The result is (..., M, ...), where M is ``dim_size``, or that of
``out``, or the largest index + 1. Where ``out`` is given it takes part in the reduction, is filled and given back.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .utils import broadcast


def scatter_sum(
    src: Tensor, index: Tensor, dim: int = -1, out: Tensor | None = None, dim_size: int | None = None
) -> Tensor:
    """The sum of each group; 0 for an empty one."""
    index = broadcast(index, src, dim)
    if out is None:
        out = src.new_zeros(shape_of_groups(src, index, dim, dim_size))
    return out.scatter_add_(dim, index, src)


def scatter_add(
    src: Tensor, index: Tensor, dim: int = -1, out: Tensor | None = None, dim_size: int | None = None
) -> Tensor:
    """Another name of :func:`scatter_sum`."""
    return scatter_sum(src, index, dim, out, dim_size)


def scatter_mul(
    src: Tensor, index: Tensor, dim: int = -1, out: Tensor | None = None, dim_size: int | None = None
) -> Tensor:
    """The product of each group; 1 for an empty one, but 0 for all where ``src`` is empty, as upstream has it."""
    index = broadcast(index, src, dim)
    if out is None:
        out = src.new_full(shape_of_groups(src, index, dim, dim_size), 1 if src.numel() else 0)
    return out.scatter_reduce_(dim, index, src, "prod")


def scatter_mean(
    src: Tensor, index: Tensor, dim: int = -1, out: Tensor | None = None, dim_size: int | None = None
) -> Tensor:
    """The mean of each group, of integers rounded down; 0 for an empty one."""
    total = scatter_sum(src, index, dim, out, dim_size)
    along = min(dim + src.dim() if dim < 0 else dim, index.dim() - 1)
    ones = torch.ones(index.shape, dtype=src.dtype, device=src.device)
    count = scatter_sum(ones, index, along, dim_size=total.size(dim)).clamp_(min=1)
    rounding_mode = None if total.is_floating_point() else "floor"
    return total.div_(broadcast(count, total, dim), rounding_mode=rounding_mode)


def scatter_min(
    src: Tensor, index: Tensor, dim: int = -1, out: Tensor | None = None, dim_size: int | None = None
) -> tuple[Tensor, Tensor]:
    """The minimum of each group and its position in ``src``; 0 and N for an empty one. NaN counts as absent."""
    return _extreme(src, index, dim, out, dim_size, largest=False)


def scatter_max(
    src: Tensor, index: Tensor, dim: int = -1, out: Tensor | None = None, dim_size: int | None = None
) -> tuple[Tensor, Tensor]:
    """The maximum of each group and its position in ``src``; 0 and N for an empty one. NaN counts as absent."""
    return _extreme(src, index, dim, out, dim_size, largest=True)


def scatter(
    src: Tensor,
    index: Tensor,
    dim: int = -1,
    out: Tensor | None = None,
    dim_size: int | None = None,
    reduce: str = "sum",
) -> Tensor:
    """Reduce by ``sum`` (``add``), ``mul``, ``mean``, ``min`` or ``max``; ValueError for anything else."""
    if reduce in ("min", "max"):
        return (scatter_min if reduce == "min" else scatter_max)(src, index, dim, out, dim_size)[0]
    reductions = {"sum": scatter_sum, "add": scatter_sum, "mul": scatter_mul, "mean": scatter_mean}
    if reduce not in reductions:
        raise ValueError(f"reduce must be sum, add, mul, mean, min or max, got {reduce!r}")
    return reductions[reduce](src, index, dim, out, dim_size)


def shape_of_groups(src: Tensor, index: Tensor, dim: int, dim_size: int | None) -> list[int]:
    """The shape of ``src`` with as many entries at ``dim`` as there are groups."""
    if dim_size is None:
        dim_size = int(index.max()) + 1 if index.numel() else 0
    shape = list(src.shape)
    shape[dim] = dim_size
    return shape


def _extreme(
    src: Tensor, index: Tensor, dim: int, out: Tensor | None, dim_size: int | None, *, largest: bool
) -> tuple[Tensor, Tensor]:
    """Largest or smallest of each group. Of equal ones the first is taken, and alone receives the gradient."""
    index = broadcast(index, src, dim)
    worst = worst_number(src.dtype, largest)
    if out is not None and src.is_floating_point():
        worst = -float("inf") if largest else float("inf")  # the search starts from out
    is_better = torch.gt if largest else torch.lt
    values = src.detach()
    start = (
        values.new_full(shape_of_groups(src, index, dim, dim_size), worst) if out is None else out.detach()
    )
    count = src.size(dim)
    if count == 0:
        positions = torch.full(start.shape, 0, dtype=torch.long, device=src.device)
        nothing = start.new_zeros(start.shape) if out is None else out
        return nothing.scatter_add_(dim, index, src), positions  # so that a loss of nothing has a gradient
    values = values.masked_fill(~is_better(values, worst), worst)
    best = start.scatter_reduce(dim, index, values, "amax" if largest else "amin")
    wins = (values == best.gather(dim, index)) & is_better(values, start.gather(dim, index))
    positions = broadcast(torch.arange(count, device=src.device), src, dim)
    first = torch.full(start.shape, count, dtype=torch.long, device=src.device)
    first = first.scatter_reduce(dim, index, positions.masked_fill(~wins, count), "amin")
    chosen = src.gather(dim, first.clamp(max=count - 1))
    if out is None:
        return chosen.masked_fill(first == count, 0), first
    return out.copy_(torch.where(first == count, out, chosen)), first


def worst_number(dtype: torch.dtype, largest: bool) -> float:
    """What every number of the dtype is better than, or equal to; infinity is not among the numbers."""
    limits = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
    return limits.min if largest else limits.max
