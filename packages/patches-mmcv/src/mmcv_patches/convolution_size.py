"""The size of a convolution's output."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["output_size", "pair"]


def output_size(input: Tensor, weight: Tensor, stride: Any, padding: Any, dilation: Any) -> tuple[int, ...]:
    """The shape (N, outputs, H, W) for ``input`` (N, C, H, W) and ``weight`` (outputs, channels, kernel H, kernel W).

    Each setting is one number for both axes, or two.

    Raises:
        ValueError: ``input`` is not 4-D, or too small for the kernel.
    """
    if input.dim() != 4:
        raise ValueError(
            f"Expected 4D tensor as input, got {input.dim()}D tensor of shape {tuple(input.shape)}"
        )
    settings = zip(input.shape[2:], weight.shape[2:], pair(stride), pair(padding), pair(dilation))
    extents = (
        (size + 2 * pad - spacing * (kernel - 1) - 1) // step + 1
        for size, kernel, step, pad, spacing in settings
    )
    shape = (len(input), len(weight), *extents)
    if min(shape[2:]) <= 0:
        raise ValueError(
            f"convolution input is too small: {tuple(input.shape)} with a kernel of {tuple(weight.shape[2:])}"
            f" would give {shape}; check stride, padding and dilation"
        )
    return shape


def pair(value: Any) -> tuple[int, int]:
    """One number for both axes, or the two."""
    rows, columns = value if isinstance(value, Iterable) else (value, value)
    return rows, columns
