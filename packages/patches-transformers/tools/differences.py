"""How far two lists of tensors are apart, and how far rounding alone takes them."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class Float64(TorchFunctionMode):
    """What upstream computes in float32, whatever the model's dtype, is computed in float64."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.float:
            func = torch.Tensor.double
        args = tuple(torch.float64 if one is torch.float32 else one for one in args)
        kwargs = {
            name: torch.float64 if one is torch.float32 else one for name, one in (kwargs or {}).items()
        }
        return func(*args, **kwargs)


def largest_difference(found: list[torch.Tensor], expected: list[torch.Tensor]) -> float:
    """The largest difference between two lists of tensors, each relative to the largest value of its own tensor."""
    sizes = [one.float().abs().max().item() if one.numel() else 0.0 for one in expected]
    return _largest_share(found, expected, sizes)


def difference_in_roundings(
    found: list[torch.Tensor], expected: list[torch.Tensor], exact: list[torch.Tensor], unit: float
) -> float:
    """The same, relative to the error that rounding left in ``expected``, which ``exact`` shows.

    That is the largest error in the tensor, or ``unit`` of its largest value where by chance it is smaller.
    """
    roundings = [
        max((one - other).abs().max().item(), unit * other.abs().max().item()) if one.numel() else 0.0
        for one, other in zip(expected, exact)
    ]
    return _largest_share(found, expected, roundings)


def _largest_share(found: list[torch.Tensor], expected: list[torch.Tensor], sizes: list[float]) -> float:
    assert len(found) == len(expected) == len(sizes), "other parameters have a gradient"
    assert all(torch.isfinite(one).all() for one in expected), "upstream's own values are not finite"
    shares = [0.0]
    for one, other, size in zip(found, expected, sizes):
        difference = (one.double() - other.double()).abs().max().item() if other.numel() else 0.0
        if difference:
            shares.append(difference / size if size else float("inf"))
    return max(shares)


def relative_errors(found: list[torch.Tensor], exact: list[torch.Tensor]) -> list[float]:
    """The largest error in each tensor, relative to the largest value of the exact one."""
    return [
        (one.double() - other).abs().max().item() / (other.abs().max().item() or 1.0) if one.numel() else 0.0
        for one, other in zip(found, exact)
    ]
