"""Cells of a grid by one number."""

from __future__ import annotations

from typing import Sequence

import torch
from torch import Tensor

__all__ = ["unflatten_indices"]


def unflatten_indices(flat: Tensor, extents: Sequence[int]) -> Tensor:
    """Turn numbers of cells, counted with the last axis fastest, into positions.

    Args:
        flat: (M,), integer, not negative.
        extents: of the axes; the first is not needed to tell cells apart.

    Returns:
        (M, len(extents)), of the dtype of ``flat``.
    """
    columns = []
    for extent in reversed(extents[1:]):
        columns.append(flat % extent)
        flat = flat.div(extent, rounding_mode="floor")
    columns.append(flat)
    return torch.stack(columns[::-1], dim=1)
