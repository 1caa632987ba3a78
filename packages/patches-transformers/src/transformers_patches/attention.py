"""Attention with the fused operator: as an attention implementation of its own, and in place of flash_attn."""

from __future__ import annotations

from typing import Any, Mapping

from patcher_core import AtomicPatch, Patch, Value, backend_of

_FUNCTIONS = f"{__package__}.attention_functions"
_UPSTREAM_FLASH = "transformers.integrations.npu_flash_attention"
_KEEPS_A_WINDOW = Value(True)
_FLASH_VERSIONS = "transformers>=4.51,<4.53"


class FusionAttention(Patch):
    """``attn_implementation="npu_fusion_attention"``: ``torch_npu.npu_fusion_attention``, and SDPA elsewhere.

    Registered as transformers (from 4.51 on) asks for it, with the masks of ``sdpa`` (from 4.53 on). Nothing changes
    for a model that does not ask for it.
    """

    name = "fusion_attention"
    library = "transformers"
    requires = "torch>=2.1"
    backends = ("npu", "portable")
    why = "upstream reaches the fused operator only through sdpa, where it turns an additive mask into a boolean one"
    upstream = "AttentionInterface and AttentionMaskInterface, transformers 4.51.3 to 5.24.0"
    until = "a transformers with an attention implementation for NPUs"

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        name = "npu_fusion_attention"
        return [
            AtomicPatch(
                f"transformers.modeling_utils.AttentionInterface._global_mapping.{name}",
                f"{_FUNCTIONS}.{backend_of(options)}_fusion_attention",
                create=True,
                requires="transformers>=4.51",
            ),
            AtomicPatch(
                f"transformers.masking_utils.AttentionMaskInterface._global_mapping.{name}",
                "transformers.masking_utils.sdpa_mask",
                create=True,
                requires="transformers>=4.53",
            ),
        ]


def _flash_patches(function: str, options: Mapping[str, Any] | None) -> list[Any]:
    return [
        AtomicPatch(f"{_UPSTREAM_FLASH}.npu_{function}", f"{_FUNCTIONS}.{backend_of(options)}_{function}"),
        # read off the signature of upstream's function when its caller was imported; absent without an NPU
        AtomicPatch(
            "transformers.modeling_flash_attention_utils._flash_supports_window_size", _KEEPS_A_WINDOW
        ),
    ]


class FlashAttention(Patch):
    """``npu_flash_attn_func`` of transformers 4.51 and 4.52: the mask is made once, a window is kept.

    Later versions make the mask once themselves.
    """

    name = "flash_attention"
    library = "transformers"
    requires = _FLASH_VERSIONS
    backends = ("npu", "portable")
    why = (
        "upstream makes a mask of 2048 x 2048 at every call on the CPU and copies it, fails without a scale, and"
        " ignores a sliding window"
    )
    upstream = f"{_UPSTREAM_FLASH}.npu_flash_attn_func, transformers 4.51.3 and 4.52"
    until = "transformers 4.53"

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        return _flash_patches("flash_attn_func", options)


class FlashAttentionVarlen(Patch):
    """``npu_flash_attn_varlen_func`` of transformers 4.51 and 4.52, for padded and packed sequences."""

    name = "flash_attention_varlen"
    library = "transformers"
    requires = _FLASH_VERSIONS
    backends = ("npu", "portable")
    why = FlashAttention.why
    upstream = f"{_UPSTREAM_FLASH}.npu_flash_attn_varlen_func, transformers 4.51.3 and 4.52"
    until = "transformers 4.53"

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        return _flash_patches("flash_attn_varlen_func", options)
