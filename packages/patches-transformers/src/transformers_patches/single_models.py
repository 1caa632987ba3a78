"""The structural patches for one model each, for those who pick single models, and all of them as one."""

from __future__ import annotations

from typing import Any, Mapping

from patcher_core import Patch, backend_of

from .attention import FlashAttention, FlashAttentionVarlen, FusionAttention
from .gated_mlp import GatedMLP
from .image_processors import ImageProcessorDevice, Qwen2VLPreprocess
from .placeholder_mask import Qwen3VLPlaceholderMask
from .rms_norm import RMS_NORMS, RMSNorm
from .rotary_embedding import ROTARY_EMBEDDINGS, RotaryEmbedding

_QWEN3 = "transformers.models.qwen3.modeling_qwen3"
_QWEN3_VL = "transformers.models.qwen3_vl.modeling_qwen3_vl"


class _OneModel(Patch):
    library = "transformers"
    backends = ("npu", "portable")


class Qwen3RMSNorm(_OneModel):
    """:class:`RMSNorm` in Qwen3 alone."""

    name = "qwen3_rmsnorm"
    requires = RMSNorm.requires
    why, upstream, until = RMSNorm.why, _QWEN3, RMSNorm.until

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        return [RMS_NORMS.patch(backend_of(options), _QWEN3)]


class Qwen3RoPE(_OneModel):
    """:class:`RotaryEmbedding` in Qwen3 alone."""

    name = "qwen3_rope"
    requires = RotaryEmbedding.requires
    why, upstream, until = RotaryEmbedding.why, _QWEN3, RotaryEmbedding.until

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        return [ROTARY_EMBEDDINGS.patch(backend_of(options), _QWEN3)]


class Qwen3VLTextRMSNorm(_OneModel):
    """:class:`RMSNorm` in the text part of Qwen3-VL alone (transformers 4.57 and later)."""

    name = "qwen3_vl_text_rmsnorm"
    requires = RMSNorm.requires
    why, upstream, until = RMSNorm.why, _QWEN3_VL, RMSNorm.until

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        return [RMS_NORMS.patch(backend_of(options), _QWEN3_VL, "*TextRMSNorm.forward")]


class Qwen3VLRoPE(_OneModel):
    """:class:`RotaryEmbedding` in Qwen3-VL alone, text and vision (transformers 4.57 and later)."""

    name = "qwen3_vl_rope"
    requires = RotaryEmbedding.requires
    why, upstream, until = RotaryEmbedding.why, _QWEN3_VL, RotaryEmbedding.until

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        return [ROTARY_EMBEDDINGS.patch(backend_of(options), _QWEN3_VL)]


class TransformersNPU(Patch):
    """Everything for transformers on an NPU."""

    name = "transformers_npu"
    library = "transformers"
    why = "one name for all"
    upstream = "transformers 4.51.3 to 5.24.0"

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        return [
            *(RMSNorm, RotaryEmbedding, GatedMLP),
            *(FusionAttention, FlashAttention, FlashAttentionVarlen),
            *(Qwen3VLPlaceholderMask, ImageProcessorDevice, Qwen2VLPreprocess),
        ]
