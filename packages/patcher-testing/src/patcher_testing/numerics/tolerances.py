"""How far two results may be apart in each dtype, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping

import torch


@dataclass(frozen=True)
class Tolerance:
    """|found - expected| may be `relative` times (|expected| + the mean of |expected|), plus `noise`.

    The mean stands for the size of the terms that were summed: an element that is small because large terms cancelled
    carries their rounding error. Where all elements are of that kind only `noise` is left, the rounding of a few sums
    of numbers of order 1; a result below it counts as zero.
    """

    relative: float
    noise: float
    reason: str


Tolerances = Mapping[torch.dtype, Tolerance]

_DOUBLE = Tolerance(2.0**-40, 2.0**-47, "2**-52 a rounding, with 12 bits for sums of thousands of terms")
_SINGLE = Tolerance(2.0**-15, 2.0**-19, "2**-23 a rounding, with 8 bits for sums of hundreds of terms")

TOLERANCES: Tolerances = {
    torch.float64: _DOUBLE,
    torch.float32: _SINGLE,
    torch.float16: Tolerance(2.0**-8, 2.0**-8, "2**-10 a rounding, and up to four between input and output"),
    torch.bfloat16: Tolerance(2.0**-5, 2.0**-5, "2**-7 a rounding, and up to four between input and output"),
    torch.complex64: _SINGLE,
    torch.complex128: _DOUBLE,
}


def is_above_noise(tensor: torch.Tensor, tolerances: Tolerances) -> bool:
    """Does a floating tensor hold anything but rounding errors?"""
    tolerance = tolerances.get(tensor.dtype)
    return bool((tensor.detach().abs() > (tolerance.noise if tolerance else 0)).any())


def is_close(found: torch.Tensor, expected: torch.Tensor, tolerance: Tolerance) -> torch.Tensor:
    """Element by element; NaN equals NaN, and infinities equal themselves. Both tensors have one shape."""
    if not expected.dtype.is_floating_point and not expected.dtype.is_complex:
        return found == expected
    wide = torch.complex128 if expected.dtype.is_complex else torch.float64
    found, expected = found.to(wide), expected.to(wide)
    size = expected.abs()
    finite = size[torch.isfinite(size)]
    typical = finite.mean() if finite.numel() else torch.zeros((), dtype=torch.float64)
    near = (found - expected).abs() <= tolerance.relative * (size + typical) + tolerance.noise
    return near | (found == expected) | (torch.isnan(found) & torch.isnan(expected))
