"""Which keys each query of npu_fusion_attention may not attend to.

Sparse modes 0 and 1 take the mask itself; 2 (causal from the upper left), 3 (causal from the lower right) and 4 (a band
around the lower right diagonal) take one compressed 2048 x 2048 causal mask, whatever the lengths are.
"""

from __future__ import annotations

from typing import Optional

import torch

OptionalTensor = Optional[torch.Tensor]

#: pre_tockens and next_tockens that mean "no band"
UNLIMITED = 2147483647

COMPRESSED_MASK_SIZE = 2048


def _check_compressed(mask: OptionalTensor, sparse_mode: int) -> None:
    size = COMPRESSED_MASK_SIZE
    causal = torch.ones(size, size, dtype=torch.bool).triu(1)
    if (
        mask is None
        or mask.numel() != size * size
        or not torch.equal(mask.bool().reshape(size, size), causal)
    ):
        found = "none" if mask is None else f"one of shape {tuple(mask.shape)}"
        raise RuntimeError(
            f"npu_fusion_attention: sparse_mode {sparse_mode} takes atten_mask = "
            f"torch.triu(torch.ones({size}, {size}), 1).bool() (True = masked), got {found} or other values"
        )


def _outside_band(
    rows: torch.Tensor, columns: torch.Tensor, pre_tokens: int, next_tokens: int
) -> torch.Tensor:
    return (columns > rows + next_tokens) | (columns < rows - pre_tokens)


def left_out(
    mask: OptionalTensor, query_size: int, key_size: int, sparse_mode: int, pre_tokens: int, next_tokens: int
) -> OptionalTensor:
    """Boolean mask that broadcasts to (batch, heads, query, key), True = left out; None = nothing is."""
    rows = torch.arange(query_size).unsqueeze(1)
    columns = torch.arange(key_size).unsqueeze(0)
    to_lower_right = key_size - query_size
    if sparse_mode in (0, 1):
        if mask is not None and sparse_mode == 0:
            _check_band_is_masked(mask, _outside_band(rows, columns, pre_tokens, next_tokens))
        return None if mask is None else mask.bool()
    if sparse_mode not in (2, 3, 4):
        raise NotImplementedError(
            f"npu::npu_fusion_attention: sparse_mode {sparse_mode} is not modelled by the simulated NPU"
        )
    _check_compressed(mask, sparse_mode)
    if sparse_mode == 2:
        return columns > rows
    if sparse_mode == 3:
        return columns > rows + to_lower_right
    return _outside_band(rows + to_lower_right, columns, pre_tokens, next_tokens)


def _check_band_is_masked(mask: torch.Tensor, outside: torch.Tensor) -> None:
    if bool((outside & ~mask.bool()).any()):
        raise RuntimeError(
            "npu_fusion_attention: with sparse_mode 0, atten_mask must itself mask what pre_tockens and "
            "next_tockens leave out; at other positions a device's result is undefined"
        )
