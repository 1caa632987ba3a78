"""The dtype in which a sum is taken."""

from __future__ import annotations

import torch

__all__ = ["accumulation_dtype", "to_accumulation_dtype"]


def accumulation_dtype(tensor: torch.Tensor) -> torch.dtype:
    """float32 for half precision (float16, bfloat16), otherwise the dtype of ``tensor``.

    Sums of many half-precision terms lose digits, and several devices have no half-precision kernel at all
    for what the operators here need.
    """
    return torch.float32 if tensor.dtype in (torch.float16, torch.bfloat16) else tensor.dtype


def to_accumulation_dtype(tensor: torch.Tensor) -> torch.Tensor:
    """``tensor`` in its :func:`accumulation_dtype`; itself where it has it already."""
    return tensor.to(accumulation_dtype(tensor))
