from mx_driving import default_patcher_builder, patch_mmcv_version
from mx_driving.patcher import Patch
from mx_driving.patcher.distribute import ddp
from mx_driving.patcher.functions import stream
from mx_driving.patcher.mmcv import dc, mdc, msda
from mx_driving.patcher.mmcv import patch_mmcv_version as of_mmcv
from mx_driving.patcher.mmdet import pseudo_sampler, resnet_add_relu, resnet_fp16, resnet_maxpool
from mx_driving.patcher.mmdet3d import nuscenes_dataset, nuscenes_metric
from mx_driving.patcher.numpy import numpy_type
from mx_driving.patcher.optimizer import optimizer_hooks, optimizer_wrapper
from mx_driving.patcher.tensor import batch_matmul, index

patch_mmcv_version("2.1.0")
of_mmcv("2.1.0")

builder = (
    default_patcher_builder.add_module_patch(
        "mmcv", Patch(msda), Patch(dc), Patch(mdc), Patch(stream), Patch(ddp), Patch(optimizer_hooks)
    )
    .add_module_patch("mmengine", Patch(optimizer_wrapper))
    .add_module_patch("torch", Patch(index), Patch(batch_matmul))
    .add_module_patch("numpy", Patch(numpy_type))
    .add_module_patch("mmdet", Patch(pseudo_sampler), Patch(resnet_add_relu), Patch(resnet_maxpool))
    .add_module_patch("mmdet3d", Patch(nuscenes_dataset), Patch(nuscenes_metric))
)
builder.disable_patches(resnet_fp16.__name__)

if __name__ == "__main__":
    with builder.build() as patcher:
        import numpy as np

        assert np.float is float
        failed = [result for result in patcher.report if result.status.value == "failed"]
        assert not failed, failed
    assert builder is default_patcher_builder and builder.build() is not builder.build()
    print("trained a step")
