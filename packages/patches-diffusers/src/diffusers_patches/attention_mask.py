"""Attention masks that hold for all queries, in diffusers' ``AttnProcessor2_0``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Mapping

from patcher_core import AtomicPatch, Patch

if TYPE_CHECKING:
    from torch import Tensor

_MODULE = "diffusers.models.attention_processor"


class AttnProcessor2_0(Patch):
    """A mask with one row for all queries gets a row for each query before ``AttnProcessor2_0`` runs.

    The rows are views of the one row, so no memory is taken. Upstream's own code runs, and
    ``scaled_dot_product_attention`` stays what it is, in this thread and in all others.
    ``FusedAttnProcessor2_0``, which takes its place after ``fuse_qkv_projections()``, is patched as well.
    """

    name = "attn_processor_2_0"
    library = "diffusers"
    why = "an NPU's attention operators take a mask with a row for each query only, where CUDA's broadcast one row"
    upstream = f"{_MODULE}.AttnProcessor2_0.__call__, diffusers 0.27.2 to 0.42.1"
    until = "scaled_dot_product_attention broadcasts masks on the device"

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        processors = ("AttnProcessor2_0", "FusedAttnProcessor2_0")
        return [
            AtomicPatch(f"{_MODULE}.{processor}.__call__", target_wrapper=given_a_row_for_each_query)
            for processor in processors
        ]


def given_a_row_for_each_query(original: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """``AttnProcessor2_0.__call__``, whose mask goes through :func:`with_a_row_for_each_query` first."""

    def __call__(
        self: Any,
        attn: Any,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
        temb: Tensor | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> Tensor:
        if attention_mask is not None:
            # (batch, queries, channels), or an image (batch, channels, height, width)
            batch, queries = hidden_states.shape[0], hidden_states.shape[1]
            if hidden_states.dim() == 4:
                queries = hidden_states.shape[2] * hidden_states.shape[3]
            attention_mask = with_a_row_for_each_query(attention_mask, batch, attn.heads, queries)
        return original(
            self, attn, hidden_states, encoder_hidden_states, attention_mask, temb, *args, **kwargs
        )

    return __call__


def with_a_row_for_each_query(mask: Tensor, batch: int, heads: int, queries: int) -> Tensor:
    """``mask`` as a view of shape (batch * heads, queries, keys), where it has one row for all queries.

    Args:
        mask: bool or floating; (batch, keys), or (batch or batch * heads, 1, keys), with more ones between or not.
            (batch, heads, 1 or queries, keys) is taken as well, where upstream cannot: it reads the second of four
            dimensions as the queries, which raises unless there are as many of them as heads.

    Every other mask comes back as it is, for upstream to use or to refuse.
    """
    if _has_heads(mask, batch, heads, queries):
        mask = mask.flatten(0, 1)
    rows, keys = mask.shape[0], mask.shape[-1]
    if mask.dim() < 2 or rows not in (batch, batch * heads) or mask.numel() != rows * keys:
        return mask
    mask = mask.reshape(rows, 1, keys)
    if rows != batch * heads:
        mask = mask.repeat_interleave(heads, dim=0)
    return mask.expand(-1, queries, -1)


def _has_heads(mask: Tensor, batch: int, heads: int, queries: int) -> bool:
    """Whether the second dimension can only be the heads."""
    if mask.dim() != 4 or heads == 1 or mask.shape[:2] != (batch, heads):
        return False
    return mask.shape[2] == queries or (mask.shape[2] == 1 and queries != heads)
