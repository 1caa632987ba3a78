"""Patches for transformers that match code by meaning, not by model name.

``CATALOG`` lists every patch, ``ALL`` those that can be enabled together, ``DEFAULT`` those that
``default_patcher`` takes, ``LEGACY`` those that have a function in the 1.0 API. Importing this package imports
neither transformers nor torch.
"""

from __future__ import annotations

from typing import Any

from .attention import FlashAttention, FlashAttentionVarlen, FusionAttention
from .gated_mlp import GatedMLP
from .image_processors import ImageProcessorDevice, Qwen2VLPreprocess
from .instances import apply_to, restore_from
from .placeholder_mask import Qwen3VLPlaceholderMask
from .rms_norm import RMSNorm
from .rotary_embedding import RotaryEmbedding
from .single_models import Qwen3RMSNorm, Qwen3RoPE, Qwen3VLRoPE, Qwen3VLTextRMSNorm, TransformersNPU

#: Every copy of a known source, in every model.
STRUCTURAL = [
    RMSNorm,
    RotaryEmbedding,
    GatedMLP,
]
#: The fused attention operator.
ATTENTION = [
    FusionAttention,
    FlashAttention,
    FlashAttentionVarlen,
]
#: Qwen-VL, and images.
BY_NAME = [
    Qwen3VLPlaceholderMask,
    ImageProcessorDevice,
    Qwen2VLPreprocess,
]
#: The structural patches for single models: not in ``ALL`` beside what they are views of.
VIEWS = [
    Qwen3RMSNorm,
    Qwen3RoPE,
    Qwen3VLTextRMSNorm,
    Qwen3VLRoPE,
]
CATALOG = [*STRUCTURAL, *ATTENTION, *BY_NAME, *VIEWS, TransformersNPU]
ALL = [*STRUCTURAL, *ATTENTION, *BY_NAME]
DEFAULT: list[Any] = []
LEGACY: list[Any] = []

__all__ = [
    "ALL",
    "ATTENTION",
    "BY_NAME",
    "CATALOG",
    "DEFAULT",
    "LEGACY",
    "STRUCTURAL",
    "VIEWS",
    "FlashAttention",
    "FlashAttentionVarlen",
    "FusionAttention",
    "GatedMLP",
    "ImageProcessorDevice",
    "Qwen2VLPreprocess",
    "Qwen3RMSNorm",
    "Qwen3RoPE",
    "Qwen3VLPlaceholderMask",
    "Qwen3VLRoPE",
    "Qwen3VLTextRMSNorm",
    "RMSNorm",
    "RotaryEmbedding",
    "TransformersNPU",
    "apply_to",
    "restore_from",
]
