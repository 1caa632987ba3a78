"""Bird eye view boxes."""

from __future__ import annotations

__all__: list[str] = []
