"""A large input for every function of mmcv._ext: what its memory is measured with."""

from __future__ import annotations

from typing import Any, Callable

from .boxes import BOXES
from .images import IMAGES
from .points import POINTS
from .regions import REGIONS
from .sizes import LARGE, Size

__all__ = ["LARGE", "LARGE_INPUTS", "Size"]

#: By the name of the function: its positional arguments at a size. The two functions that take none are not there.
LARGE_INPUTS: dict[str, Callable[[Size], tuple[Any, ...]]] = {**BOXES, **IMAGES, **POINTS, **REGIONS}
