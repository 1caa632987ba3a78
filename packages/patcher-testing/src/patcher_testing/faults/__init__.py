"""Would the tests of a patch set notice a wrong replacement? Asked by planting one in each patch."""

from __future__ import annotations

from .planted_faults import PlantedFaults

__all__ = ["PlantedFaults"]
