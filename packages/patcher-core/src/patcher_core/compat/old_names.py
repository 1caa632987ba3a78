"""The old interface as data: which module of ``mx_driving.patcher`` has which names, and where they are today."""

from __future__ import annotations

from typing import Mapping

#: A name: dotted path of what it is today, where that is not the same name in :mod:`patcher_core`.
ELSEWHERE: Mapping[str, str] = {
    "LegacyPatchWrapper": "patcher_core.legacy.LegacyPatchWrapper",
    "LegacyPatcherBuilder": "patcher_core.legacy.PatcherBuilder",
    "is_mmcv_v1x": "patcher_core.compat.old_forms.is_mmcv_v1x",
    "is_mmcv_v2x": "patcher_core.compat.old_forms.is_mmcv_v2x",
    "patch_mmcv_version": "patcher_core.compat.old_forms.patch_mmcv_version",
    "with_imports": "patcher_core.compat.old_forms.with_imports",
}

#: The names that old programs take from each patch set. A set offers everything else that it has as well.
PREDEFINED: Mapping[str, tuple[str, ...]] = {
    "patches-torch": (
        *("NumpyCompat", "CollectionsCompat", "TensorIndex", "BatchMatmul", "FusedAdamW", "TorchScatter"),
        *("numpy_type", "index", "batch_matmul", "scatter"),
    ),
    "patches-mmcv": (
        *("MSDA", "MultiScaleDeformableAttention", "DeformConv", "ModulatedDeformConv", "SparseConv3D"),
        *("Voxelization", "Stream", "DDP", "OptimizerHooks", "OptimizerWrapper"),
        *("msda", "dc", "mdc", "spconv3d", "stream", "ddp", "optimizer_hooks", "optimizer_wrapper"),
        *("ensure_mmcv_version", "mmcv_version"),
        *("build_mmcv_epoch_runner_patch", "build_mmcv_iter_runner_patch"),
        *("build_mmengine_epoch_train_loop_patch", "build_mmengine_iter_train_loop_patch"),
    ),
    "patches-mmdet": (
        *("NuScenes", "PseudoSampler", "ResNetAddRelu", "ResNetMaxPool", "ResNetFP16"),
        *("NuScenesDataset", "NuScenesMetric"),
        *("pseudo_sampler", "resnet_add_relu", "resnet_maxpool", "resnet_fp16"),
        *("nuscenes_dataset", "nuscenes_metric"),
    ),
    "patches-transformers": ("RMSNorm", "RotaryEmbedding", "GatedMLP", "TransformersNPU"),
    "patches-diffusers": ("AttnProcessor2_0", "DiffusersNPU"),
}

_VERSIONS = ("get_version", "check_version", "mmcv_version", "is_mmcv_v1x", "is_mmcv_v2x")

#: Each module below ``mx_driving.patcher``: its names, or the distribution of the patch set all of whose names it has.
MODULES: Mapping[str, str | tuple[str, ...]] = {
    "patch": (
        *("BasePatch", "Patch", "AtomicPatch", "RegistryPatch", "LegacyPatch", "with_imports"),
        *("PatchResult", "PatchStatus"),
        *_VERSIONS,
    ),
    "patcher": ("Patcher", "replace_with", "PatcherBuilder", "Patch"),
    "patcher_logger": (
        *("PatcherLogger", "patcher_logger", "configure_patcher_logging", "set_patcher_log_level"),
        *("PatchError", "LogAction"),
    ),
    "reporting": ("PatchStatus", "PatchResult"),
    "version": _VERSIONS,
    "legacy": (*("LegacyPatchWrapper", "LegacyPatcherBuilder", "PatcherBuilder", "default_patcher_builder"),),
    "mmcv_patch": "patches-mmcv",
    "mmengine_patch": "patches-mmcv",
    "mmdet_patch": "patches-mmdet",
    "mmdet3d_patch": "patches-mmdet",
    "numpy_patch": "patches-torch",
    "torch_patch": "patches-torch",
    "torch_scatter_patch": "patches-torch",
    "python_patch": "patches-torch",
    "transformers_patch": "patches-transformers",
    "diffusers_patch": "patches-diffusers",
    # before those
    "mmcv": "patches-mmcv",
    "optimizer": "patches-mmcv",
    "distribute": "patches-mmcv",
    "functions": "patches-mmcv",
    "mmdet": "patches-mmdet",
    "mmdet3d": "patches-mmdet",
    "numpy": "patches-torch",
    "tensor": "patches-torch",
}

#: What ``mx_driving`` itself has of its patcher; the real package's ``__init__`` imports them.
OF_THE_ROOT = ("default_patcher_builder", "patch_mmcv_version")

#: Names of the package ``mx_driving.patcher`` beside all those of its modules.
OF_THE_PACKAGE = (*OF_THE_ROOT, "default_patcher")
