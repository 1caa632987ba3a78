"""Choosing a few columns of each row of a matrix: the first marked ones, or those of the smallest values."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["first_marked_columns", "positions_in_groups", "repeated", "smallest_columns"]


def first_marked_columns(marked: Tensor, limit: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Find the first ``limit`` marked columns of each row.

    Args:
        marked: (R, N) bool.
        limit: most columns taken from a row.

    Returns:
        Three (K,) int64 tensors in row-major order, the row, the column, and how many marked columns of that
        row come before it; and how many are marked in each row, (R,) int64, beyond the limit too.
    """
    rows, columns = marked.nonzero(as_tuple=True)
    counts = marked.sum(dim=1)
    positions = positions_in_groups(rows, counts)
    kept = (positions < limit).nonzero().squeeze(1)
    return rows[kept], columns[kept], positions[kept], counts


def smallest_columns(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Find the ``count`` smallest values of each row, in ascending order, of equal ones the first.

    ``torch.topk`` alone leaves open which of several equal values it takes.

    Args:
        values: (R, N), floating, without NaN, N >= count >= 1.

    Returns:
        The values (R, count) and their columns (R, count) int64.
    """
    smallest, columns = values.topk(count, dim=1, largest=False)
    columns, order = columns.sort(dim=1)
    smallest, by_value = smallest.gather(1, order).sort(dim=1, stable=True)
    columns = columns.gather(1, by_value)

    largest_taken = smallest[:, -1:]
    more_equal = ((values <= largest_taken).sum(dim=1) > count).nonzero().squeeze(1)
    if more_equal.numel():
        tied = values[more_equal]
        smaller = tied < largest_taken[more_equal]
        equal = tied == largest_taken[more_equal]
        rows, equal_columns, positions, _ = first_marked_columns(equal, count)
        places = smaller.sum(dim=1)[rows] + positions
        kept = places < count
        columns[more_equal[rows[kept]], places[kept]] = equal_columns[kept]
    return smallest, columns


def positions_in_groups(groups: Tensor, counts: Tensor) -> Tensor:
    """Number the members of each group from zero.

    Args:
        groups: (K,) int64, ascending: the group of each member.
        counts: (G,) int64, the number of members of each group.
    """
    starts = counts.cumsum(0) - counts
    return torch.arange(groups.numel(), device=groups.device).sub_(starts.index_select(0, groups))


def repeated(counts: Tensor) -> tuple[Tensor, Tensor]:
    """Repeat each number of ``range(G)`` as often as ``counts`` says.

    Args:
        counts: (G,) int64.

    Returns:
        The numbers, (counts.sum(),) int64, and which repetition of its number each is, from zero.
    """
    groups = torch.repeat_interleave(counts)
    return groups, positions_in_groups(groups, counts)
