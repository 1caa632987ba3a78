"""Rotary position embedding in every model of diffusers that has one of the known forms of it."""

from __future__ import annotations

from typing import Any, Mapping

from patcher_core import Patch

from .structural import structural_patch

_BUILDERS = {
    "753c052d5d177378": "rotary_forms.neighbours",  # 0.28, 0.29
    "caec365bb82d4070": "rotary_forms.with_unbind_dim",  # 0.30 to 0.34
    "c2c66b67b26b715a": "rotary_forms.with_sequence_dim",  # from 0.35 on
    "8b58fc7fe8985d1d": "rotary_forms.qwen",  # QwenImage
    "3c22acdfe3110ae7": "rotary_forms.neighbours_of_sequence",  # LTX
}
_LEFT_ALONE = {
    "eb3f65e76c311e54": "it rotates by three axes, with frequencies gathered by position",  # Allegro
    "988e8cb6b8f1352a": "it rounds each product to the dtype of the input",  # Helios
    "0aefc23acfb4b8e0": "it computes in float64 where the device can",  # AnyFlow
    "a4ca8e215cdbb61f": "it is written for another device",  # QwenImage on Neuron
    "4559dfa441539ea1": "it multiplies by a matrix for each pair of channels",  # Kandinsky 6
}


class RotaryEmbedding(Patch):
    """``apply_rotary_emb*`` of every known form: ``npu_rotary_mul`` on an NPU, no rotated copy elsewhere."""

    name = "diffusers_rope"
    library = "diffusers"
    backends = ("npu", "portable")
    why = "upstream writes a rotated copy of every query and key and multiplies twice"
    upstream = "apply_rotary_emb* in diffusers/models, diffusers 0.28 to 0.42.1"
    until = "diffusers calls a fused operator on the device"

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        return [structural_patch("apply_rotary*", _BUILDERS, options, left_alone=_LEFT_ALONE)]
