"""Patches for mmcv 1.x, mmcv 2.x and mmengine, and mmcv's compiled operators in plain PyTorch.

``CATALOG`` lists every patch, ``ALL`` those that can be enabled together, ``DEFAULT`` those that
``default_patcher`` takes, ``LEGACY`` those that have a function in the 1.0 API. Importing this package imports
neither mmcv nor torch.
"""

from __future__ import annotations

from patcher_core import LibraryVersion

from .deform_conv import DeformConv
from .device_neutral_operators import DeviceNeutralOperators
from .distributed_data_parallel import DDP
from .modulated_deform_conv import ModulatedDeformConv
from .multi_scale_deformable_attention import MultiScaleDeformableAttention
from .optimizer_hooks import OptimizerHooks
from .optimizer_wrapper import OptimizerWrapper
from .portable_extension import PortableExtension
from .shown_version import ensure_mmcv_version, patch_mmcv_version
from .sigmoid_focal_loss import SigmoidFocalLoss
from .sparse_convolution import SparseConv3D
from .stream import Stream
from .training_loops import (
    build_mmcv_epoch_runner_patch,
    build_mmcv_iter_runner_patch,
    build_mmengine_epoch_train_loop_patch,
    build_mmengine_iter_train_loop_patch,
)
from .voxelization import Voxelization

#: The short name of :class:`MultiScaleDeformableAttention` in programs written for the predecessor.
MSDA = MultiScaleDeformableAttention

#: The installed mmcv, whatever it is called: ``mmcv_version.version``, ``.is_v1x``, ``.is_v2x``,
#: ``.has_mmengine``.
mmcv_version = LibraryVersion(
    "mmcv",
    "mmcv-full",
    "mmcv-lite",
    is_v1x=">=1,<2",
    is_v2x=">=2.0.0rc0,<3",
    has_mmcv="",
    has_mmengine=lambda: LibraryVersion("mmengine", "mmengine-lite").available,
)

DEFAULT = [
    PortableExtension,
    DeviceNeutralOperators,
    MultiScaleDeformableAttention,
    DeformConv,
    ModulatedDeformConv,
    SparseConv3D,
    Stream,
    DDP,
]
CATALOG = [
    *DEFAULT,
    Voxelization,
    SigmoidFocalLoss,
    OptimizerHooks,
    OptimizerWrapper,
]
ALL = list(CATALOG)
LEGACY = [patch for patch in CATALOG if patch.legacy_name]

__all__ = [
    "ALL",
    "CATALOG",
    "DDP",
    "DEFAULT",
    "LEGACY",
    "MSDA",
    "DeformConv",
    "DeviceNeutralOperators",
    "ModulatedDeformConv",
    "MultiScaleDeformableAttention",
    "OptimizerHooks",
    "OptimizerWrapper",
    "PortableExtension",
    "SigmoidFocalLoss",
    "SparseConv3D",
    "Stream",
    "Voxelization",
    "build_mmcv_epoch_runner_patch",
    "build_mmcv_iter_runner_patch",
    "build_mmengine_epoch_train_loop_patch",
    "build_mmengine_iter_train_loop_patch",
    "ensure_mmcv_version",
    "mmcv_version",
    "patch_mmcv_version",
]
