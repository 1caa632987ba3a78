"""What transformers calls for attention, in its own signatures, over the operators of a backend."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .attention_operators import NPU, PORTABLE, Operators, Pattern

#: Arguments that change the result and that the operator has no place for.
_NOT_POSSIBLE = ("softcap", "s_aux", "head_mask", "output_attentions")


# ---------------------------------------------------------------------- attention_interface, 4.51 to 5.x
def npu_fusion_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """``attn_implementation="npu_fusion_attention"`` with the operator of the NPU; see :func:`_attend`."""
    return _attend(NPU, module, query, key, value, attention_mask, dropout, scaling, is_causal, kwargs)


def portable_fusion_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """The same in plain PyTorch."""
    return _attend(PORTABLE, module, query, key, value, attention_mask, dropout, scaling, is_causal, kwargs)


def _attend(
    operators: Operators,
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float,
    scaling: float | None,
    is_causal: bool | None,
    kwargs: dict[str, Any],
) -> tuple[Tensor, None]:
    """Attention of query (B, N, Q, D) over key (B, M, K, D) and value (B, M, K, E): (B, Q, N, E), and no weights.

    Args:
        attention_mask: (B, 1 or N, Q, K or more), booleans or what is added; None: causal where ``is_causal`` (or the
            module) says so and there is more than one query.
        kwargs: ``sliding_window`` counts where there is no mask, since a mask has it in it already. With
            ``cu_seq_lens_q`` and ``cu_seq_lens_k`` (cumulative lengths with a leading 0, a batch of 1) the batch is
            sequences behind one another. ``position_bias`` (broadcast to the scores) is added to them.

    Raises:
        ValueError: for an argument that changes the result and that the operator does not know.
    """
    for name in _NOT_POSSIBLE:
        if kwargs.get(name) is not None and kwargs[name] is not False:
            raise ValueError(
                f"attn_implementation='npu_fusion_attention' cannot do {name}, which {type(module).__name__} asks"
                " for; load this model with attn_implementation='eager'"
            )
    scale = query.shape[-1] ** -0.5 if scaling is None else float(scaling)
    is_causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    # a layer's window counts the position itself, a pattern's the positions before it
    window = (kwargs["sliding_window"] - 1, -1) if kwargs.get("sliding_window") and is_causal else (-1, -1)
    query_ends = kwargs.get("cu_seq_lens_q")
    if query_ends is not None and query.shape[0] == 1:
        ends = (_ends(query_ends), _ends(kwargs["cu_seq_lens_k"]))
        tokens = (one.squeeze(0).transpose(0, 1) for one in (query, key, value))
        pattern = Pattern(is_causal, window=window)
        return operators.packed_attention(*tokens, *ends, pattern, scale, dropout).unsqueeze(0), None
    pattern = Pattern(is_causal and query.shape[2] > 1, upper_left=True, window=window)
    mask = attention_mask
    if mask is not None:
        mask = mask[..., : key.shape[-2]]
    if kwargs.get("position_bias") is not None:
        mask = _with_bias(mask, kwargs["position_bias"], pattern, query.shape[2], key.shape[2])
    result = operators.attention(query, key, value, mask, pattern, scale, dropout)
    return result.transpose(1, 2).contiguous(), None


def _with_bias(mask: Tensor | None, bias: Tensor, pattern: Pattern, queries: int, keys: int) -> Tensor:
    bias = bias[..., :keys]
    if mask is None:
        mask = pattern.allowed(queries, keys, bias.device)
    if mask is None:
        return bias
    return bias.masked_fill(mask.logical_not(), float("-inf")) if mask.dtype == torch.bool else bias + mask


def _ends(cumulative_lengths: Tensor) -> list[int]:
    ends: list[int] = cumulative_lengths[1:].tolist()
    return ends


# ---------------------------------------------------------------------- flash_attention_2, 4.51 and 4.52
def npu_flash_attn_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    **kwargs: Any,
) -> Tensor:
    """``flash_attn_func`` of flash_attn 2 with the operator of the NPU; see :func:`_flash`."""
    return _flash(NPU, q, k, v, dropout_p, softmax_scale, causal, window_size, kwargs)


def portable_flash_attn_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    **kwargs: Any,
) -> Tensor:
    """The same in plain PyTorch."""
    return _flash(PORTABLE, q, k, v, dropout_p, softmax_scale, causal, window_size, kwargs)


def npu_flash_attn_varlen_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    **kwargs: Any,
) -> Tensor:
    """``flash_attn_varlen_func`` of flash_attn 2 with the operator of the NPU; see :func:`_flash_varlen`."""
    ends = (cu_seqlens_q, cu_seqlens_k)
    return _flash_varlen(NPU, q, k, v, *ends, dropout_p, softmax_scale, causal, window_size, kwargs)


def portable_flash_attn_varlen_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    **kwargs: Any,
) -> Tensor:
    """The same in plain PyTorch."""
    ends = (cu_seqlens_q, cu_seqlens_k)
    return _flash_varlen(PORTABLE, q, k, v, *ends, dropout_p, softmax_scale, causal, window_size, kwargs)


def _flash(
    operators: Operators,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dropout_p: float,
    softmax_scale: float | None,
    causal: bool,
    window_size: tuple[int, int],
    kwargs: dict[str, Any],
) -> Tensor:
    """Attention of q (B, Q, N, D) over k (B, K, M, D) and v (B, K, M, E): (B, Q, N, E)."""
    pattern, scale = _flash_facts(q, softmax_scale, causal, window_size, kwargs)
    heads_first = (one.transpose(1, 2) for one in (q, k, v))
    return operators.attention(*heads_first, None, pattern, scale, dropout_p).transpose(1, 2)


def _flash_varlen(
    operators: Operators,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    dropout_p: float,
    softmax_scale: float | None,
    causal: bool,
    window_size: tuple[int, int],
    kwargs: dict[str, Any],
) -> Tensor:
    """Attention of q (T, N, D) over k (S, M, D) and v (S, M, E) within each sequence: (T, N, E)."""
    pattern, scale = _flash_facts(q, softmax_scale, causal, window_size, kwargs)
    ends = (_ends(cu_seqlens_q), _ends(cu_seqlens_k))
    return operators.packed_attention(q, k, v, *ends, pattern, scale, dropout_p)


def _flash_facts(
    q: Tensor,
    softmax_scale: float | None,
    causal: bool,
    window_size: tuple[int, int],
    kwargs: dict[str, Any],
) -> tuple[Pattern, float]:
    from transformers.integrations.npu_flash_attention import SPARSE_MODE

    if kwargs.get("softcap"):
        raise ValueError("flash_attention_2 on an NPU cannot do softcap; use attn_implementation='eager'")
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else float(softmax_scale)
    before, after = window_size
    # NPU_FA2_SPARSE_MODE=2, upstream's switch for the alignment of flash_attn before 2.1
    return Pattern(causal, upper_left=SPARSE_MODE == 2, window=(before, after)), scale
