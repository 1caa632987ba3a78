"""Bringing an index to the shape of what it indexes."""

from __future__ import annotations

from torch import Tensor


def broadcast(src: Tensor, other: Tensor, dim: int) -> Tensor:
    """``src`` expanded to the shape of ``other``; a 1-d ``src`` lies along dimension ``dim`` of it."""
    dim = dim + other.dim() if dim < 0 else dim
    if src.dim() == 1:
        src = src.view(*[1] * dim, -1)
    return src.view(*src.shape, *[1] * (other.dim() - src.dim())).expand_as(other)
