"""Scaled dot-product attention as two operators, each in plain PyTorch and with ``torch_npu.npu_fusion_attention``.

``attention`` takes a batch (B, heads, sequence, D), ``packed_attention`` sequences of several lengths behind one
another (tokens, heads, D). Keys and values may have fewer heads than queries (grouped-query attention, Ainslie et al.,
2023, https://arxiv.org/abs/2305.13245). Dropout is applied to the probabilities.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, NamedTuple, Sequence

import torch
from torch import Tensor
from torch.nn import functional

#: Facts of npu_fusion_attention (torch_npu 2.1.0.post17 to 2.14.0, the same in all schemas): ``scale`` defaults to 1,
#: True in ``atten_mask`` means left out, and the sparse modes below 4 other than 0 and 1 take the compressed mask.
_WHOLE_MASK, _CAUSAL_UPPER_LEFT, _CAUSAL_LOWER_RIGHT, _BAND = 1, 2, 3, 4
_COMPRESSED_SIZE = 2048
_UNLIMITED = 2147483647


class Pattern(NamedTuple):
    """Which keys a query may attend to where no mask says so.

    Attributes:
        causal: to none after its own position. The last query stands at the last key, as in flash_attn 2.1 and later;
            with ``upper_left`` the first query stands at the first key, as in PyTorch.
        window: how many keys before and after its own position at most, -1 for all. A window is always counted from
            the lower right.
    """

    causal: bool = False
    upper_left: bool = False
    window: tuple[int, int] = (-1, -1)

    @property
    def has_window(self) -> bool:
        return self.window[0] >= 0 or (self.window[1] >= 0 and not self.causal)

    def allowed(self, queries: int, keys: int, device: torch.device) -> Tensor | None:
        """(queries, keys), True where a query may attend; None where it may everywhere."""
        if not self.causal and not self.has_window:
            return None
        from_upper_left = self.upper_left and not self.has_window
        position = torch.arange(queries, device=device).unsqueeze(1) + (
            0 if from_upper_left else keys - queries
        )
        distance = torch.arange(keys, device=device) - position
        before, after = self.window
        allowed = distance <= (0 if self.causal else after if after >= 0 else keys)
        return allowed & (distance >= -before) if before >= 0 else allowed


class Operators(NamedTuple):
    """The two operators of one backend.

    ``attention(query, key, value, mask, pattern, scale, dropout)``: query (B, N, Q, D), key (B, M, K, D), value
    (B, M, K, E) of one dtype, where M divides N; ``mask`` broadcasts to (B, N, Q, K): booleans, True where a query may
    attend, or numbers that are added to the scaled scores; None: see ``pattern``. Gives (B, N, Q, E).

    ``packed_attention(query, key, value, query_ends, key_ends, pattern, scale, dropout)``: query (T, N, D), key
    (S, M, D), value (S, M, E); the ends are cumulative lengths without a leading 0. Gives (T, N, E).
    """

    attention: Callable[..., Tensor]
    packed_attention: Callable[..., Tensor]


def portable_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    pattern: Pattern,
    scale: float,
    dropout: float,
) -> Tensor:
    """See :class:`Operators`; with ``torch.nn.functional.scaled_dot_product_attention``."""
    group = query.shape[1] // key.shape[1]
    if group > 1:
        key, value = key.repeat_interleave(group, dim=1), value.repeat_interleave(group, dim=1)
    is_torchs_own = mask is None and pattern.causal and pattern.upper_left and not pattern.has_window
    if mask is None and not is_torchs_own:
        mask = pattern.allowed(query.shape[2], key.shape[2], query.device)
    return functional.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, dropout_p=dropout, is_causal=is_torchs_own, scale=scale
    )


def npu_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    pattern: Pattern,
    scale: float,
    dropout: float,
) -> Tensor:
    """See :class:`Operators`; what is not on an NPU is computed by :func:`portable_attention`."""
    if query.device.type != "npu":
        return portable_attention(query, key, value, mask, pattern, scale, dropout)
    import torch_npu

    arguments = _compressed(pattern, query.device) if mask is None else _masked(mask, query, scale)
    heads = query.shape[1]
    return torch_npu.npu_fusion_attention(
        query, key, value, heads, "BNSD", scale=scale, keep_prob=1.0 - dropout, **arguments
    )[0]


def portable_packed_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_ends: Sequence[int],
    key_ends: Sequence[int],
    pattern: Pattern,
    scale: float,
    dropout: float,
) -> Tensor:
    """See :class:`Operators`; sequence by sequence."""
    parts = []
    for first, last, key_first, key_last in zip(
        [0, *query_ends], query_ends, [0, *key_ends], key_ends
    ):  # each attends to itself alone
        one = (
            query[first:last].transpose(0, 1).unsqueeze(0),
            key[key_first:key_last].transpose(0, 1).unsqueeze(0),
            value[key_first:key_last].transpose(0, 1).unsqueeze(0),
        )
        parts.append(portable_attention(*one, None, pattern, scale, dropout).squeeze(0).transpose(0, 1))
    return torch.cat(parts)


def npu_packed_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_ends: Sequence[int],
    key_ends: Sequence[int],
    pattern: Pattern,
    scale: float,
    dropout: float,
) -> Tensor:
    """See :class:`Operators`; what is not on an NPU is computed by :func:`portable_packed_attention`."""
    if query.device.type != "npu":
        return portable_packed_attention(query, key, value, query_ends, key_ends, pattern, scale, dropout)
    import torch_npu

    return torch_npu.npu_fusion_attention(
        query,
        key,
        value,
        query.shape[1],
        "TND",
        scale=scale,
        keep_prob=1.0 - dropout,
        actual_seq_qlen=tuple(query_ends),
        actual_seq_kvlen=tuple(key_ends),
        **_compressed(pattern, query.device),
    )[0]


PORTABLE = Operators(portable_attention, portable_packed_attention)
NPU = Operators(npu_attention, npu_packed_attention)


def _compressed(pattern: Pattern, device: torch.device) -> dict[str, Any]:
    """The arguments for a pattern: one mask of a fixed size, whatever the lengths are."""
    if pattern.has_window:
        before, after = (size if size >= 0 else _UNLIMITED for size in pattern.window)
        return {
            "atten_mask": _compressed_mask(device),
            "sparse_mode": _BAND,
            "pre_tockens": before,
            "next_tockens": 0 if pattern.causal else after,
        }
    if not pattern.causal:
        return {}
    mode = _CAUSAL_UPPER_LEFT if pattern.upper_left else _CAUSAL_LOWER_RIGHT
    return {"atten_mask": _compressed_mask(device), "sparse_mode": mode}


@functools.lru_cache(maxsize=None)
def _compressed_mask(device: torch.device) -> Tensor:
    """4 MiB, made once for each device."""
    return torch.ones(_COMPRESSED_SIZE, _COMPRESSED_SIZE, dtype=torch.bool, device=device).triu(1)


def _masked(mask: Tensor, query: Tensor, scale: float) -> dict[str, Any]:
    """The arguments for a mask (B, 1 or N, Q, K), which the operator wants for one head or all, of whole rows."""
    if mask.dtype == torch.bool:
        return {"atten_mask": mask.logical_not(), "sparse_mode": _WHOLE_MASK}
    # What is added may be a bias or stand for a mask. The operator adds before it scales, where the smallest number
    # would overflow.
    left_out = mask <= torch.finfo(mask.dtype).min / 2
    bias = (mask.masked_fill(left_out, 0) / scale).to(query.dtype)
    return {
        "atten_mask": left_out,
        "sparse_mode": _WHOLE_MASK,
        "pse": bias.expand(-1, query.shape[1], -1, -1).contiguous(),
    }
