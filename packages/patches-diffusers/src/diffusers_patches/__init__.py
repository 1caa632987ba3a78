"""Patches for diffusers.

``CATALOG`` lists every patch, ``ALL`` those that can be enabled together, ``DEFAULT`` those that
``default_patcher`` takes, ``LEGACY`` those that have a function in the 1.0 API. Importing this package imports
neither diffusers nor torch.
"""

from __future__ import annotations

from typing import Any

from .attention_mask import AttnProcessor2_0
from .composite import DiffusersNPU
from .gelu import GEGLU, GELU
from .rms_norm import RMSNorm
from .rotary_embedding import RotaryEmbedding

DEFAULT = [AttnProcessor2_0]
ALL = [*DEFAULT, RMSNorm, GEGLU, GELU, RotaryEmbedding]
CATALOG = [*ALL, DiffusersNPU]
LEGACY: list[Any] = []

__all__ = [
    "ALL",
    "CATALOG",
    "DEFAULT",
    "GEGLU",
    "GELU",
    "LEGACY",
    "AttnProcessor2_0",
    "DiffusersNPU",
    "RMSNorm",
    "RotaryEmbedding",
]
