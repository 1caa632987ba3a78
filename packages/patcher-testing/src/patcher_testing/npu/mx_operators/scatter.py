"""Reductions of the rows of a tensor into groups named by an index."""

from __future__ import annotations

from typing import Optional

import torch

OptionalTensor = Optional[torch.Tensor]


def _along(index: torch.Tensor, like: torch.Tensor, dim: int) -> torch.Tensor:
    """`index` broadcast to the shape of `like`, a 1-D index lying along `dim`."""
    if index.dim() == 1:
        index = index.view([-1 if position == dim else 1 for position in range(like.dim())])
    while index.dim() < like.dim():
        index = index.unsqueeze(-1)
    return index.expand_as(like).long()


def _result_shape(source: torch.Tensor, index: torch.Tensor, dim: int, dim_size: int | None) -> list[int]:
    shape = list(source.shape)
    shape[dim] = dim_size if dim_size is not None else (int(index.max()) + 1 if index.numel() else 0)
    return shape


def scatter_max(
    updates: torch.Tensor, indices: torch.Tensor, out: OptionalTensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Maximum of each group of rows, in float32, and the row it came from (int32).

    An empty group gives 0 and the number of rows. Ties go to the last row.
    """
    if indices.dim() > 1 and indices[0].numel() != 1:
        raise RuntimeError(
            f"scatter_max: indices must have size 1 in all dimensions but the first, got {indices.shape}"
        )
    groups = _along(indices.reshape(-1), updates, 0)
    values = updates.float()
    lowest = float("-inf")
    shape = _result_shape(updates, indices, 0, None if out is None else out.size(0))
    maximum = torch.full(shape, lowest) if out is None else out.float().clone()
    maximum = maximum.scatter_reduce(0, groups, values, "amax")
    rows = torch.arange(updates.size(0)).view(-1, *[1] * (updates.dim() - 1)).expand_as(updates)
    winners = torch.where(values == maximum.gather(0, groups), rows, -1)
    source = torch.full(shape, -1).scatter_reduce(0, groups, winners, "amax")
    return maximum.masked_fill(maximum == lowest, 0), source.masked_fill(source < 0, updates.size(0)).int()


def scatter_max_backward(grad: torch.Tensor, positions: torch.Tensor, size: torch.Tensor) -> torch.Tensor:
    """Sum of the gradients at each flat position of the updates; positions past the end belong to empty
    groups.
    """
    result = torch.zeros(int(size))
    flat = positions.reshape(-1).long()
    inside = flat < int(size)
    return result.index_add(0, flat[inside], grad.reshape(-1).float()[inside])


def npu_scatter_add(
    source: torch.Tensor,
    index: torch.Tensor,
    out: OptionalTensor,
    dim: int | None,
    dim_size: int | None,
) -> torch.Tensor:
    dim = (dim or 0) % source.dim()
    base = source.new_zeros(_result_shape(source, index, dim, dim_size)) if out is None else out
    return base.scatter_add(dim, _along(index, source, dim), source)


def npu_scatter_add_grad(grad: torch.Tensor, index: torch.Tensor, dim: int) -> torch.Tensor:
    dim = dim % grad.dim()
    shape = list(grad.shape)
    shape[dim] = index.numel() if index.dim() == 1 else index.size(dim)
    return grad.gather(dim, _along(index, grad.new_empty(shape), dim))


def npu_scatter_mean(
    source: torch.Tensor,
    index: torch.Tensor,
    out: OptionalTensor,
    dim: int | None,
    dim_size: int | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean of each group and the number of members (at least 1)."""
    total = npu_scatter_add(source, index, out, dim, dim_size)
    size = total.size((dim or 0) % source.dim())
    count = npu_scatter_add(torch.ones_like(source), index, None, dim, size).clamp(min=1)
    return total / count, count


def npu_scatter_mean_grad(
    grad: torch.Tensor, index: torch.Tensor, count: torch.Tensor, dim: int
) -> torch.Tensor:
    return npu_scatter_add_grad(grad / count, index, dim)


REFERENCES = {
    "scatter_max": scatter_max,
    "scatter_max_backward": scatter_max_backward,
    "npu_scatter_add": npu_scatter_add,
    "npu_scatter_add_grad": npu_scatter_add_grad,
    "npu_scatter_mean": npu_scatter_mean,
    "npu_scatter_mean_grad": npu_scatter_mean_grad,
}
