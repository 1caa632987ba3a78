"""How large inputs are."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["LARGE", "Size", "many"]


class Size(NamedTuple):
    """Of one input, whichever of the two the function has."""

    #: Height and width of images, in pixels.
    side: int
    #: Number of points or boxes.
    count: int

    def image(self, channels: int) -> Tensor:
        """Random feature maps (1, channels, side, side)."""
        return torch.randn(1, channels, self.side, self.side)


#: Four megapixels, and 100,000 points or boxes.
LARGE = Size(2048, 100_000)


def many(*shape: int, below: int) -> Tensor:
    """Random int32 in ``range(below)``."""
    return torch.randint(0, below, shape, dtype=torch.int32)
