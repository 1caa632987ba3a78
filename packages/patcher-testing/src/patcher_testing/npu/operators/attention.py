"""npu_fusion_attention and its gradient.

Semantics from the operator's documentation in torch_npu 2.13.0: softmax(mask((q k^T + pse) * scale)) v, where
True in the mask means "left out", `scale` defaults to 1, and sparse modes 2, 3 and 4 take the compressed 2048
x 2048 causal mask. A query that may attend to nothing gives zeros. What a real device leaves undefined is
refused here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterator, Optional, Sequence

import torch

from ..differentiation import gradients, upcast
from ..randomness import device_generator
from .attention_layouts import LAYOUTS, from_heads_first, head_sizes, heads_first
from .attention_masks import UNLIMITED, left_out

OptionalTensor = Optional[torch.Tensor]

#: softmax statistics repeat each value 8 times: a block of the device's vector unit
STATISTICS_WIDTH = 8


@dataclass(frozen=True)
class _Options:
    head_num: int
    layout: str
    scale: float
    keep_prob: float
    pre_tokens: int
    next_tokens: int
    query_ends: Sequence[int] | None
    key_ends: Sequence[int] | None
    sparse_mode: int
    seed: int

    def left_out(self, mask: OptionalTensor, query_size: int, key_size: int) -> OptionalTensor:
        return left_out(mask, query_size, key_size, self.sparse_mode, self.pre_tokens, self.next_tokens)


def _dropped(shape: Sequence[int], options: _Options, part: int) -> OptionalTensor:
    """Dropout mask (True = kept) that the gradient can draw again from the seed."""
    if options.keep_prob >= 1:
        return None
    generator = torch.Generator().manual_seed((options.seed + part) % 2**63)
    return torch.rand(tuple(shape), generator=generator) < options.keep_prob


def _attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    pse: OptionalTensor,
    sink: OptionalTensor,
    mask: OptionalTensor,
    options: _Options,
    part: int = 0,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Attention over (batch, heads, sequence, head size), and the softmax's maximum and sum of each query."""
    if query.size(1) % max(key.size(1), 1):
        raise RuntimeError(f"{query.size(1)} query heads are not a multiple of {key.size(1)} key heads")
    group = query.size(1) // max(key.size(1), 1)
    key, value = (tensor.repeat_interleave(group, dim=1) for tensor in (key, value))
    scores = query @ key.transpose(-1, -2)
    scores = (scores if pse is None else scores + pse) * options.scale
    if mask is not None:
        scores = scores.masked_fill(mask, float("-inf"))
    if sink is not None:
        scores = torch.cat((scores, sink.view(1, -1, 1, 1).expand(*scores.shape[:-1], 1)), dim=-1)
    maximum = scores.detach().amax(-1, keepdim=True)
    weights = torch.exp(scores - maximum.masked_fill(maximum == float("-inf"), 0))
    total = weights.sum(-1, keepdim=True)
    probabilities = weights / total.masked_fill(total == 0, 1)
    if sink is not None:
        probabilities = probabilities[..., :-1]
    kept = _dropped(probabilities.shape, options, part)
    if kept is not None:
        probabilities = probabilities * kept / options.keep_prob
    return probabilities @ value, maximum, total.detach()


def _sequences(
    query: torch.Tensor, key: torch.Tensor, options: _Options
) -> Iterator[tuple[int, int, int, int]]:
    """Start and end of each sequence among the query's and the key's tokens (layout TND)."""
    for name, ends, size in (
        ("actual_seq_qlen", options.query_ends, query.size(0)),
        ("actual_seq_kvlen", options.key_ends, key.size(0)),
    ):
        if not ends or ends[0] == 0 or ends[-1] != size or list(ends) != sorted(ends):
            raise RuntimeError(
                f"npu_fusion_attention: layout TND takes {name} as cumulative lengths without a leading 0 "
                f"that end at the number of tokens, {size}; got {None if ends is None else list(ends)}"
            )
    query_ends, key_ends = list(options.query_ends or ()), list(options.key_ends or ())
    if len(query_ends) != len(key_ends):
        raise RuntimeError(f"{len(query_ends)} query sequences but {len(key_ends)} key sequences")
    return zip([0, *query_ends], query_ends, [0, *key_ends], key_ends)


def _attend_packed(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: OptionalTensor, options: _Options
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Layout TND: sequences of several lengths behind one another, each attending to itself."""
    parts: list[tuple[torch.Tensor, ...]] = []
    for part, (start, end, key_start, key_end) in enumerate(_sequences(query, key, options)):
        one_query, one_key, one_value = (
            tensor[first:last].transpose(0, 1).unsqueeze(0)
            for tensor, first, last in (
                (query, start, end),
                (key, key_start, key_end),
                (value, key_start, key_end),
            )
        )
        lengths = (end - start, key_end - key_start)
        one_mask = mask
        if mask is not None and options.sparse_mode in (0, 1):
            one_mask = mask[..., : lengths[0], : lengths[1]]
        masked = options.left_out(one_mask, *lengths)
        results = _attend(one_query, one_key, one_value, None, None, masked, options, part)
        parts.append(tuple(result.squeeze(0).transpose(0, 1) for result in results))
    output, maximum, total = (torch.cat(pieces) for pieces in zip(*parts))
    return output, maximum, total


def _check(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: OptionalTensor, options: _Options
) -> None:
    if options.layout not in LAYOUTS:
        raise RuntimeError(f"input_layout must be one of {', '.join(LAYOUTS)}, got {options.layout!r}")
    dimensions = 4 if options.layout in ("BNSD", "BSND") else 3
    if any(tensor.dim() != dimensions for tensor in (query, key, value)):
        raise RuntimeError(
            f"input_layout {options.layout} takes {dimensions}-D tensors, got query {query.dim()}-D"
        )
    if not query.dtype == key.dtype == value.dtype:
        raise RuntimeError(
            f"query, key and value must have one dtype: {query.dtype}, {key.dtype}, {value.dtype}"
        )
    if mask is not None and mask.dtype not in (torch.bool, torch.uint8):
        raise RuntimeError(f"atten_mask must be bool or uint8, got {mask.dtype}")
    if not 0 < options.keep_prob <= 1:
        raise RuntimeError(f"keep_prob must be above 0 and at most 1, got {options.keep_prob}")


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    pse: OptionalTensor,
    sink: OptionalTensor,
    mask: OptionalTensor,
    options: _Options,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    if options.layout == "TND":
        if query.size(1) != options.head_num:
            raise RuntimeError(f"head_num is {options.head_num} but the query has {query.size(1)} heads")
        if pse is not None or sink is not None:
            raise NotImplementedError("npu::npu_fusion_attention: pse and sink with TND are not modelled")
        return _attend_packed(query, key, value, mask, options)
    head_size, value_head_size = head_sizes(query, key, value, options.layout, options.head_num)
    query, key, value = (
        heads_first(tensor, options.layout, size)
        for tensor, size in ((query, head_size), (key, head_size), (value, value_head_size))
    )
    if query.size(1) != options.head_num:
        raise RuntimeError(f"head_num is {options.head_num} but {options.layout} gives {query.size(1)} heads")
    masked = options.left_out(mask, query.size(2), key.size(2))
    output, maximum, total = _attend(query, key, value, pse, sink, masked, options)
    return from_heads_first(output, options.layout), maximum, total


def fusion_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    head_num: int,
    input_layout: str,
    pse: OptionalTensor = None,
    padding_mask: OptionalTensor = None,
    atten_mask: OptionalTensor = None,
    scale: float = 1.0,
    keep_prob: float = 1.0,
    pre_tockens: int = UNLIMITED,
    next_tockens: int = UNLIMITED,
    inner_precise: int = 0,
    prefix: Sequence[int] | None = None,
    actual_seq_qlen: Sequence[int] | None = None,
    actual_seq_kvlen: Sequence[int] | None = None,
    sparse_mode: int = 0,
    gen_mask_parallel: bool = True,
    sync: bool = False,
    softmax_layout: str = "",
    sink: OptionalTensor = None,
    dropout_mask: OptionalTensor = None,
    seed: int = 0,
    offset: int = 0,
) -> tuple[Any, ...]:
    """Output in the query's dtype and layout, softmax maximum and sum (float32, 8 wide), an empty tensor, and
    the three integers by which the gradient draws the dropout mask again: seed, offset, number of
    elements.
    """
    if padding_mask is not None:
        raise RuntimeError("npu_fusion_attention: padding_mask is not supported")
    if prefix is not None or dropout_mask is not None:
        raise NotImplementedError("npu::npu_fusion_attention: prefix and dropout_mask are not modelled")
    if keep_prob < 1 and not seed:
        seed = int(torch.randint(1, 2**31, (), generator=device_generator()))
    options = _Options(
        head_num=head_num,
        layout=input_layout,
        scale=scale,
        keep_prob=keep_prob,
        pre_tokens=pre_tockens,
        next_tokens=next_tockens,
        query_ends=actual_seq_qlen,
        key_ends=actual_seq_kvlen,
        sparse_mode=sparse_mode,
        seed=seed,
    )
    _check(query, key, value, atten_mask, options)
    output, maximum, total = _attention(*map(upcast, (query, key, value)), pse, sink, atten_mask, options)
    wide = (STATISTICS_WIDTH,)
    statistics = (
        tensor.float().expand(*tensor.shape[:-1], *wide).contiguous() for tensor in (maximum, total)
    )
    elements = output.numel() if keep_prob < 1 else 0
    return (output.to(query.dtype), *statistics, torch.empty(0, dtype=query.dtype), seed, offset, elements)


def fusion_attention_grad(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dy: torch.Tensor,
    head_num: int,
    input_layout: str,
    *,
    pse: OptionalTensor = None,
    atten_mask: OptionalTensor = None,
    scale_value: float = 1.0,
    keep_prob: float = 1.0,
    pre_tockens: int = UNLIMITED,
    next_tockens: int = UNLIMITED,
    seed: int = 0,
    actual_seq_qlen: Sequence[int] | None = None,
    actual_seq_kvlen: Sequence[int] | None = None,
    sparse_mode: int = 0,
    sink: OptionalTensor = None,
    **unused: Any,
) -> tuple[torch.Tensor, ...]:
    """Gradients for query, key, value, pse and sink (empty where those are absent)."""
    options = _Options(
        head_num=head_num,
        layout=input_layout,
        scale=scale_value,
        keep_prob=keep_prob,
        pre_tokens=pre_tockens,
        next_tokens=next_tockens,
        query_ends=actual_seq_qlen,
        key_ends=actual_seq_kvlen,
        sparse_mode=sparse_mode,
        seed=seed,
    )
    found = gradients(
        lambda q, k, v, p, s: _attention(q, k, v, p, s, atten_mask, options)[0],
        (query, key, value, pse, sink),
        dy,
    )
    return tuple(torch.empty(0, dtype=query.dtype) if gradient is None else gradient for gradient in found)


REFERENCES = {
    "npu::npu_fusion_attention": fusion_attention,
    "npu::npu_fusion_attention_grad": fusion_attention_grad,
}
