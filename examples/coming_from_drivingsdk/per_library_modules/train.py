from mx_driving.patcher.legacy import LegacyPatcherBuilder, LegacyPatchWrapper, default_patcher_builder
from mx_driving.patcher.mmcv_patch import dc, mdc, msda, patch_mmcv_version, spconv3d
from mx_driving.patcher.mmdet3d_patch import nuscenes_dataset, nuscenes_metric
from mx_driving.patcher.mmdet_patch import pseudo_sampler, resnet_add_relu, resnet_fp16, resnet_maxpool
from mx_driving.patcher.mmengine_patch import ddp, optimizer_hooks, optimizer_wrapper, stream
from mx_driving.patcher.numpy_patch import numpy_type
from mx_driving.patcher.patcher import Patch, Patcher
from mx_driving.patcher.torch_patch import batch_matmul, index
from mx_driving.patcher.torch_scatter_patch import scatter

patch_mmcv_version("2.1.0")

module_patches = {
    "mmcv": [Patch(function) for function in (msda, dc, mdc, spconv3d, stream, ddp, optimizer_hooks)],
    "mmengine": [Patch(optimizer_wrapper)],
    "torch": [Patch(index, priority=2), Patch(batch_matmul, priority=1)],
    "torch_scatter": [Patch(scatter)],
    "numpy": [Patch(numpy_type)],
    "mmdet": [Patch(function) for function in (pseudo_sampler, resnet_add_relu, resnet_maxpool, resnet_fp16)],
    "mmdet3d": [Patch(nuscenes_dataset), Patch(nuscenes_metric)],
}
assert all(isinstance(patch, LegacyPatchWrapper) for patches in module_patches.values() for patch in patches)
assert [patch.func for patch in sorted(module_patches["torch"])] == [batch_matmul, index]

if __name__ == "__main__":
    patcher = Patcher(module_patches, {"resnet_fp16", "msda"}, allow_internal_format=False)
    assert not patcher.is_applied
    patcher.apply()
    import numpy as np

    assert patcher.is_applied and np.float is float
    assert not any(result.group == msda.patch_class.name for result in patcher.report)
    assert isinstance(default_patcher_builder, LegacyPatcherBuilder)
    print("trained a step")
