"""Reductions of the elements of a tensor within ranges.

Shapes, for all functions: ``indptr`` (ascending integers) is (..., M + 1), its leading dimensions broadcast to those of
``src``, which is (..., N, ...). Group m is made of the elements from ``indptr[m]`` up to, not including,
``indptr[m + 1]``; what lies in none is left out. The result is (..., M, ...). ``out`` is overwritten and given back.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .scatter import scatter_max, scatter_min, scatter_sum, worst_number


def segment_sum_csr(src: Tensor, indptr: Tensor, out: Tensor | None = None) -> Tensor:
    """The sum of each group; 0 for an empty one."""
    dim, groups = _dim(indptr), _groups(indptr)
    total = scatter_sum(src, _index(indptr, src), dim, dim_size=groups + 1)
    return _result(total.narrow(dim, 0, groups), out)


def segment_add_csr(src: Tensor, indptr: Tensor, out: Tensor | None = None) -> Tensor:
    """Another name of :func:`segment_sum_csr`."""
    return segment_sum_csr(src, indptr, out)


def segment_mean_csr(src: Tensor, indptr: Tensor, out: Tensor | None = None) -> Tensor:
    """The mean of each group, of integers rounded towards zero; 0 for an empty one."""
    total = segment_sum_csr(src, indptr)
    count = (indptr[..., 1:] - indptr[..., :-1]).clamp(min=1).to(src.dtype)
    count = count.view(*count.shape, *[1] * (src.dim() - count.dim()))
    rounding_mode = None if src.is_floating_point() else "trunc"
    return _result(total.div(count, rounding_mode=rounding_mode), out)


def segment_min_csr(src: Tensor, indptr: Tensor, out: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The minimum of each group and its position in ``src``; 0 and N for an empty one.

    A group of nothing but NaN, infinity or the largest number of the dtype has that largest number and N.
    In half precision the largest number is that of float32, which is infinity there.
    """
    return _extreme(src, indptr, out, largest=False)


def segment_max_csr(src: Tensor, indptr: Tensor, out: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The maximum of each group and its position in ``src``; 0 and N for an empty one.

    As in :func:`segment_min_csr`, with negative infinity and the smallest number.
    """
    return _extreme(src, indptr, out, largest=True)


def segment_csr(src: Tensor, indptr: Tensor, out: Tensor | None = None, reduce: str = "sum") -> Tensor:
    """Reduce by ``sum`` (``add``), ``mean``, ``min`` or ``max``; ValueError for anything else."""
    if reduce in ("min", "max"):
        return (segment_min_csr if reduce == "min" else segment_max_csr)(src, indptr, out)[0]
    reductions = {"sum": segment_sum_csr, "add": segment_sum_csr, "mean": segment_mean_csr}
    if reduce not in reductions:
        raise ValueError(f"reduce must be sum, add, mean, min or max, got {reduce!r}")
    return reductions[reduce](src, indptr, out)


def gather_csr(src: Tensor, indptr: Tensor, out: Tensor | None = None) -> Tensor:
    """The entry of ``src``, (..., M, ...), of each group, as often as the group has elements: (..., N, ...)."""
    dim = _dim(indptr)
    count = int(indptr.reshape(-1)[-1]) if out is None else out.size(dim)
    shape = [*src.shape[:dim], count, *src.shape[dim + 1 :]]
    index = _segments(indptr, shape[: dim + 1]).clamp_(0, _groups(indptr) - 1)
    index = index.view(*index.shape, *[1] * (src.dim() - index.dim())).expand(shape)
    return _result(src.gather(dim, index), out)


def _dim(indptr: Tensor) -> int:
    return indptr.dim() - 1


def _groups(indptr: Tensor) -> int:
    return indptr.size(-1) - 1


def _segments(indptr: Tensor, shape: list[int]) -> Tensor:
    """For each element of the given shape (..., N) the number of its group; -1 before the first, M after the last."""
    bounds = indptr.expand(*shape[:-1], -1).contiguous()
    elements = torch.arange(shape[-1], dtype=indptr.dtype, device=indptr.device).expand(shape).contiguous()
    return torch.searchsorted(bounds, elements, right=True) - 1


def _index(indptr: Tensor, src: Tensor) -> Tensor:
    """The group of each element of ``src``, in its shape; M for elements in none."""
    segments = _segments(indptr, list(src.shape[: indptr.dim()]))
    segments = segments.masked_fill(segments < 0, _groups(indptr))
    return segments.view(*segments.shape, *[1] * (src.dim() - segments.dim())).expand_as(src)


def _extreme(src: Tensor, indptr: Tensor, out: Tensor | None, *, largest: bool) -> tuple[Tensor, Tensor]:
    dim, groups = _dim(indptr), _groups(indptr)
    searched = src.float() if src.dtype in (torch.float16, torch.bfloat16) else src
    reduction = scatter_max if largest else scatter_min
    values, positions = reduction(searched, _index(indptr, src), dim, dim_size=groups + 1)
    values, positions = values.narrow(dim, 0, groups), positions.narrow(dim, 0, groups)
    has_elements = indptr[..., 1:] > indptr[..., :-1]
    has_elements = has_elements.view(*has_elements.shape, *[1] * (src.dim() - has_elements.dim()))
    nothing_better = has_elements & (positions == src.size(dim))
    values = values.masked_fill(nothing_better, worst_number(searched.dtype, largest))
    return _result(values.to(src.dtype), out), positions


def _result(made: Tensor, out: Tensor | None) -> Tensor:
    return made if out is None else out.copy_(made)
