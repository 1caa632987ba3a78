"""References for the compiled functions of mx_driving (`mx_driving._C`): plain PyTorch on CPU tensors.

Each module offers `REFERENCES`, function name to Python function. Arguments come by position, as the compiled
functions take them; their number is checked against the real signature when the stand-in for `_C` is made.
"""

from __future__ import annotations

from typing import Any, Callable

from . import deformable, elementwise, losses, optimizers, points, scatter, sparse_convolution, voxels

REFERENCES: dict[str, Callable[..., Any]] = {
    **deformable.REFERENCES,
    **elementwise.REFERENCES,
    **losses.REFERENCES,
    **optimizers.REFERENCES,
    **points.REFERENCES,
    **scatter.REFERENCES,
    **sparse_convolution.REFERENCES,
    **voxels.REFERENCES,
}
