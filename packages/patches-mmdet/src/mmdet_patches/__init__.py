"""Patches for mmdet 2.x/3.x and mmdet3d.

``CATALOG`` lists every patch, ``ALL`` those that can be enabled together, ``DEFAULT`` those that
``default_patcher`` takes, ``LEGACY`` those that have a function in the 1.0 API. Importing this package imports
neither mmdet, mmdet3d nor torch.
"""

from __future__ import annotations

from .nuscenes_dataset import NuScenesDataset
from .nuscenes_metric import NuScenesMetric
from .pseudo_sampler import PseudoSampler
from .resnet_add_relu import ResNetAddRelu
from .resnet_fp16 import ResNetFP16
from .resnet_max_pool import ResNetMaxPool

#: The name of :class:`NuScenesDataset` in the 1.0 API.
NuScenes = NuScenesDataset

DEFAULT = [ResNetAddRelu, ResNetMaxPool, NuScenesDataset, NuScenesMetric]
ALL = [*DEFAULT, PseudoSampler]
CATALOG = [*ALL, ResNetFP16]
LEGACY = [patch for patch in CATALOG if patch.legacy_name]

__all__ = [
    "ALL",
    "CATALOG",
    "DEFAULT",
    "LEGACY",
    "NuScenes",
    "NuScenesDataset",
    "NuScenesMetric",
    "PseudoSampler",
    "ResNetAddRelu",
    "ResNetFP16",
    "ResNetMaxPool",
]
