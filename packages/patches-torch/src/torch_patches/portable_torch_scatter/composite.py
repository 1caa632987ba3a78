"""What is composed of reductions. Shapes as in :mod:`.scatter`."""

from __future__ import annotations

import torch
from torch import Tensor

from .scatter import scatter_max, scatter_sum, shape_of_groups
from .utils import broadcast


def scatter_std(
    src: Tensor,
    index: Tensor,
    dim: int = -1,
    out: Tensor | None = None,
    dim_size: int | None = None,
    unbiased: bool = True,
) -> Tensor:
    """The standard deviation of each group: ``sqrt(sum((x - mean) ** 2) / (n - 1 + 1e-6))``, with n if biased.

    ``out`` is added to the sum of squares.
    """
    index = broadcast(index, src, dim)
    size = out.size(dim) if out is not None else dim_size
    count = scatter_sum(torch.ones_like(src), index, dim, dim_size=size).clamp(min=1)
    mean = scatter_sum(src, index, dim, dim_size=size) / count
    deviations = src - mean.gather(dim, index)
    squares = scatter_sum(deviations * deviations, index, dim, out, size)
    degrees = (count - 1).clamp(min=1) if unbiased else count
    return (squares / (degrees + 1e-6)).sqrt()


def scatter_logsumexp(
    src: Tensor,
    index: Tensor,
    dim: int = -1,
    out: Tensor | None = None,
    dim_size: int | None = None,
    eps: float = 1e-12,
) -> Tensor:
    """``log(sum(exp(x)))`` of each group, 0 for an empty one; ``eps`` is added to the sum, less its largest exponent.

    Raises:
        ValueError: ``src`` is not floating point.
    """
    _check_floating_point("scatter_logsumexp", src)
    index = broadcast(index, src, dim)
    shape = shape_of_groups(src, index, dim, dim_size if out is None else out.size(dim))
    with torch.no_grad():
        largest = scatter_max(src, index, dim, src.new_full(shape, float("-inf")))[0]
    recentred = src - largest.gather(dim, index)
    recentred = recentred.masked_fill(recentred.isnan(), float("-inf"))
    start = None if out is None else out.sub_(largest).exp_()
    total = scatter_sum(recentred.exp(), index, dim, start, shape[dim])
    return ((total + eps).log() + largest).nan_to_num(neginf=0.0)


def scatter_softmax(src: Tensor, index: Tensor, dim: int = -1, dim_size: int | None = None) -> Tensor:
    """Softmax within each group, in the shape of ``src``.

    Raises:
        ValueError: ``src`` is not floating point.
    """
    _check_floating_point("scatter_softmax", src)
    index = broadcast(index, src, dim)
    exponentials = _recentred(src, index, dim, dim_size).exp()
    total = scatter_sum(exponentials, index, dim, dim_size=dim_size)
    return exponentials / total.gather(dim, index)


def scatter_log_softmax(
    src: Tensor, index: Tensor, dim: int = -1, eps: float = 1e-12, dim_size: int | None = None
) -> Tensor:
    """Logarithm of the softmax within each group, in the shape of ``src``; ``eps`` is added to the sum.

    Raises:
        ValueError: ``src`` is not floating point.
    """
    _check_floating_point("scatter_log_softmax", src)
    index = broadcast(index, src, dim)
    recentred = _recentred(src, index, dim, dim_size)
    total = scatter_sum(recentred.exp(), index, dim, dim_size=dim_size)
    return recentred - (total + eps).log().gather(dim, index)


def _recentred(src: Tensor, index: Tensor, dim: int, dim_size: int | None) -> Tensor:
    """``src`` less the largest of each group, which cancels out of a softmax and of its gradient."""
    with torch.no_grad():
        largest = scatter_max(src, index, dim, dim_size=dim_size)[0]
    return src - largest.gather(dim, index)


def _check_floating_point(name: str, src: Tensor) -> None:
    if not src.is_floating_point():
        raise ValueError(f"{name} takes floating point tensors, got {src.dtype}")
