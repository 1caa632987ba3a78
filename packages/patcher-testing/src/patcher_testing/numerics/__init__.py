"""A replacement compared with the upstream original on the same random inputs."""

from __future__ import annotations

from .cases import CASES, Case, Draw
from .comparison import Comparison, Mismatch, VacuousComparison, assert_same_numerics
from .faults import assert_faults_are_caught
from .tolerances import TOLERANCES, Tolerance

__all__ = [
    "CASES",
    "TOLERANCES",
    "Case",
    "Comparison",
    "Draw",
    "Mismatch",
    "Tolerance",
    "VacuousComparison",
    "assert_faults_are_caught",
    "assert_same_numerics",
]
