"""Rotary position embedding in every model that has one of the known forms of it."""

from __future__ import annotations

from typing import Any, Mapping

from patcher_core import Patch

from .known_forms import KnownForms

_NOT_TORCH = "it is written for another framework than PyTorch"
_MEMORY_ATTENTION = "it rotates only a part of the keys, with frequencies repeated for every frame in memory"

#: A form whose name ends in _4 takes ``position_ids``, which it does not use, as functions of transformers 4 did.
ROTARY_EMBEDDINGS = KnownForms(
    names="apply_*rotary_pos_emb*",
    forms={
        "b98689a095e79fa2": "half",  # Llama
        "5509b615e18720de": "half_4",
        "8bf571d17661719b": "half_rounded",  # Olmo
        "6e470c17864006e1": "half_rounded_4",
        "a924f7c0ac1cc69e": "half_in_float32",  # ModernBert
        "04dc9e5161a7bc9a": "half_in_float32",  # HunYuanVL: cos and sin as float32, which the product is anyway
        "59fcfcbf33ecdbb9": "half_flipped",  # NanoChat
        "9774443d3a7e8b81": "half_of_pairs",  # GptOss
        "0d88a854edddb25b": "half_of_pairs_4",
        "3a42dd87f725e8f5": "partial_half",  # GPTNeoX
        "89459201babfd039": "partial_half",  # Nemotron
        "8bf3b359e844c9ff": "partial_half",  # Phi3
        "3e206b3b70214444": "partial_half_4",
        "cc08d954e3e06fa0": "partial_half_4",
        "95bbe94a9de8b53c": "partial_half_4",
        "25290669391f5806": "partial_half_optional_key",  # Qwen4Exp
        "99c1cacbc886151f": "interleaved",  # Blt
        "d2085c773f4bc384": "interleaved_4",
        "e5e0a805712e4728": "interleaved_4",  # Qwen2_5Omni of transformers 4
        "c141bd88d69b7d5d": "interleaved",  # Qwen2_5Omni of transformers 5.0
        "a91b4d182ec19787": "interleaved_in_float32",  # Cohere
        "bc3a3c60e10eafd6": "interleaved_in_float32_4",
        "28324d4debd9dc85": "interleaved_in_float32",  # Ernie4_5_VL
        "87348ffe24e340d2": "interleaved_repeated",  # Helium
        "2ac0a67037b9081e": "interleaved_repeated_4",
        "09bbee99c0ff5032": "interleaved_repeated",  # PeAudio
        "fffd7b6b8856bbc2": "interleaved_repeated_in_float32",  # Ernie4_5
        "4be6fa749abfe649": "interleaved_repeated_in_float32_4",
        "787568577d4983ab": "interleaved_of_pairs",  # OpenAIPrivacyFilter
        "922909a724e274a5": "partial_interleaved_repeated",  # Glm
        "3935fb082b907bff": "partial_interleaved_repeated",
        "601f222ebc925c59": "partial_interleaved_repeated_4",
        "d3ca8e8456f86f0b": "partial_interleaved",  # Glm4v
        "21a21a8d09d8e711": "separated_4",  # DeepseekV3 of transformers 4
        "8fbe7c7c3ea9fcf7": "separated_first_half_4",  # DeepseekV3
        "1467db6f0ca5f434": "separated_first_half_optional_key",  # MistralLarge4
        "a727f33d635988f0": "half_gathered",  # PhiMoe and Idefics of transformers 4
        "52aa94f780e0ac12": "half_gathered_with_value",  # Clvp
        "cd9e9bcd7982f77f": "multimodal_half",  # Qwen2_VL, Qwen2_5_VL, Qwen2_5Omni of transformers 4
        "41a75324155f2ac7": "multimodal_partial_half",  # Glm4vMoe of transformers 4
        "7411672c18f47cf5": "multimodal_partial_interleaved_repeated",  # Glm4v of transformers 4
        "7c9209fc6bec1a05": "one_half",  # Gemma3n
        "f4491e4f53cdc639": "one_half_4",
        "7457e653f115723a": "one_trailing_interleaved",  # DeepseekV4
        "9576c06bea8b11be": "one_half_truncated",  # Esm of transformers 4
        "19f0f1b5022c81bd": "one_half_truncated",  # Evolla of transformers 4
        "17a9af94bc4f9979": "one_interleaved_sin_first",  # GPTJ, CodeGen
        "e2f5e1e8cc55ddb3": "one_half_from_frequencies",  # the vision part of Qwen2_5Omni
        "5c1edaa4fc65dcc4": "vision_half",  # Qwen2_5_VL
        "c78a1d3eac80a595": "vision_interleaved",  # Inkling2
        "8fc2d5b25e1d7311": "vision_partial_half",  # MiniMaxM3VL
        "60a3cf25598aef7b": "plane_interleaved",  # Sam3
        "70deda5b1f5d1ddc": "patches_half",  # DINOv3ViT
    },
    left_alone={
        "4ebce0e2df04ab08": "it calls the kernel of flash_attn",
        "5a659affbaf3880f": "it rotates the query with the last positions only",
        "7afefd1e9d1aed8d": _MEMORY_ATTENTION,
        "a6b257dc5460fb88": _MEMORY_ATTENTION,
        "93d2c448d8236f17": _NOT_TORCH,
        "d4e00e8aabb985a9": _NOT_TORCH,
        "b8653c9b57eb06f4": _NOT_TORCH,
        "90eb563b8d8964f4": _NOT_TORCH,
        "d6978d9bfa062bb6": _NOT_TORCH,
        "6207c1605de817bc": _NOT_TORCH,
    },
    implementations=f"{__package__}.rotary_forms",
)


class RotaryEmbedding(Patch):
    """``apply_*rotary_pos_emb*`` of every known form: ``npu_rotary_mul`` on an NPU, fewer copies elsewhere.

    The portable implementation gives upstream's result to the bit, in every dtype. The NPU operator computes in
    float32 and rounds once, where upstream rounds each product.
    """

    name = "rope"
    library = "transformers"
    requires = "torch>=2.1"
    backends = ("npu", "portable")
    option_names = ("modules",)
    why = "upstream writes a rotated copy of every query and key and multiplies twice"
    upstream = "apply_*rotary_pos_emb* in transformers/models/*/modeling_*.py, transformers 4.51.3 to 5.24.0"
    until = "transformers calls a fused operator on the device"

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        return list(ROTARY_EMBEDDINGS.patches(options))
