"""The order of the dimensions of npu_fusion_attention's tensors: batch, sequence, heads (N), head size (D), H = N * D.

TND has no batch: its sequences of several lengths lie behind one another.
"""

from __future__ import annotations

import torch

LAYOUTS = ("BSH", "SBH", "BSND", "BNSD", "TND")


def heads_first(tensor: torch.Tensor, layout: str, head_size: int) -> torch.Tensor:
    """To (batch, heads, sequence, head size)."""
    if layout == "BNSD":
        return tensor
    if layout == "BSND":
        return tensor.transpose(1, 2)
    if layout == "SBH":
        tensor = tensor.transpose(0, 1)
    return tensor.unflatten(-1, (-1, head_size)).transpose(1, 2)


def from_heads_first(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    """What :func:`heads_first` was given, from what it gave; contiguous."""
    if layout == "BNSD":
        return tensor.contiguous()
    tensor = tensor.transpose(1, 2)
    if layout == "BSND":
        return tensor.contiguous()
    tensor = tensor.flatten(-2)
    return (tensor.transpose(0, 1) if layout == "SBH" else tensor).contiguous()


def head_sizes(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, layout: str, head_num: int
) -> tuple[int, int]:
    """Size of a query or key head, and of a value head."""
    if layout in ("BNSD", "BSND"):
        return query.size(-1), value.size(-1)
    head_size = query.size(-1) // head_num
    key_heads = max(key.size(-1) // max(head_size, 1), 1)
    return head_size, value.size(-1) // key_heads
