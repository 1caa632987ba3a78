"""What both focal losses of mmcv take, and how they sum it up."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["check_arguments", "reduced"]

_REDUCTIONS = ("none", "mean", "sum")


def check_arguments(input: Tensor, target: Tensor, weight: Tensor | None, reduction: str) -> None:
    """Raise AssertionError, as upstream does, unless ``input`` is (N, C), ``target`` (N,) int64, ``weight`` (C,)."""
    import torch

    assert target.dtype == torch.long, f"labels must be int64, got {target.dtype}"
    assert input.dim() == 2 and target.dim() == 1 and input.size(0) == target.size(0), (
        f"expected inputs (N, C) and labels (N,), got {tuple(input.shape)} and {tuple(target.shape)}"
    )
    assert weight is None or (weight.dim() == 1 and input.size(1) == weight.size(0)), (
        "expected a weight for each class"
    )
    assert reduction in _REDUCTIONS, f"reduction must be one of {_REDUCTIONS}, got {reduction!r}"


def reduced(losses: Tensor, reduction: str) -> Tensor:
    """``losses`` (N,) or (N, C) as they are, their sum, or their sum divided by N: the mean over rows."""
    if reduction == "none":
        return losses
    return losses.sum() / losses.size(0) if reduction == "mean" else losses.sum()
