"""The life cycle that every patch set must survive, as tests that its author inherits."""

from __future__ import annotations

from .contract import PatchSetContract

__all__ = ["PatchSetContract"]
