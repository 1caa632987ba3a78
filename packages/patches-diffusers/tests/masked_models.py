"""Small models of diffusers with attention, and masks for them."""

from __future__ import annotations

import torch
from diffusers import Transformer2DModel, UNet2DConditionModel
from diffusers.models.attention_processor import Attention, AttnProcessor2_0

BATCH, HEADS, QUERIES, KEYS, WIDTH, TEXT_WIDTH = 2, 3, 5, 7, 12, 10

#: shapes of a mask with one row for all queries, as callers of ``Attention`` give it
SHAPES = {
    "[B,S]": (BATCH, KEYS),
    "[B,1,S]": (BATCH, 1, KEYS),
    "[B*N,1,S]": (BATCH * HEADS, 1, KEYS),
    "[B,1,1,S]": (BATCH, 1, 1, KEYS),
    "[B,N,1,S]": (BATCH, HEADS, 1, KEYS),
}


def attention(cross: bool = True) -> Attention:
    return Attention(
        query_dim=WIDTH,
        cross_attention_dim=TEXT_WIDTH if cross else None,
        heads=HEADS,
        dim_head=4,
        processor=AttnProcessor2_0(),
    )


def mask_of(shape, kind) -> torch.Tensor:
    """Random, and every query may attend to something."""
    if kind == "float":
        return torch.randn(shape) * 3
    mask = torch.rand(shape) < 0.5
    mask[..., 0] = True
    return mask


def expanded(mask: torch.Tensor, queries: int) -> torch.Tensor:
    """In memory, with a row for each query: (B * N, queries, S)."""
    rows = mask.reshape(BATCH, -1, mask.shape[-1])  # (B, 1 or N, S)
    rows = rows.expand(BATCH, HEADS, -1).reshape(BATCH * HEADS, 1, -1)
    return rows.repeat(1, queries, 1)


class ExplicitlyExpanding(AttnProcessor2_0):
    """The reference: upstream's processor, handed a mask that was expanded in memory."""

    def __call__(self, attn, hidden_states, encoder_hidden_states=None, attention_mask=None, *args, **kwargs):
        if attention_mask is not None:
            rows = attention_mask.repeat_interleave(attn.heads, dim=0)
            attention_mask = rows.repeat(1, hidden_states.shape[1], 1)
        return super().__call__(attn, hidden_states, encoder_hidden_states, attention_mask, *args, **kwargs)


def small_unet() -> UNet2DConditionModel:
    return UNet2DConditionModel(
        sample_size=8,
        in_channels=4,
        out_channels=4,
        layers_per_block=1,
        block_out_channels=(8, 16),
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=TEXT_WIDTH,
        attention_head_dim=4,
        norm_num_groups=4,
    ).eval()


def small_transformer() -> Transformer2DModel:
    return Transformer2DModel(
        num_attention_heads=HEADS,
        attention_head_dim=4,
        in_channels=4,
        num_layers=2,
        norm_num_groups=2,
        cross_attention_dim=TEXT_WIDTH,
    ).eval()


def with_random_weights(model):
    """Layers that start at zero would hide what is computed before them."""
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model
