"""Everything for diffusers in one group."""

from __future__ import annotations

from typing import Any, Mapping

from patcher_core import Patch

from .attention_mask import AttnProcessor2_0
from .gelu import GEGLU, GELU
from .rms_norm import RMSNorm
from .rotary_embedding import RotaryEmbedding


class DiffusersNPU(Patch):
    """Every patch of this set as one group, to enable or disable by one name."""

    name = "diffusers_npu"
    library = "diffusers"
    backends = ("npu", "portable")
    why = "a pipeline needs all of them to run on an NPU as it runs on CUDA"
    upstream = "diffusers 0.27.2 to 0.42.1"

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        groups = (AttnProcessor2_0, RMSNorm, GEGLU, GELU, RotaryEmbedding)
        return [patch for group in groups for patch in group.patches(options)]
