import torch
from mx_driving.patcher import AtomicPatch, Patcher, replace_with


class SparseConv(torch.nn.Linear):
    pass


def forward(self, x):
    return self.conv(x) * 2


def configure_patcher(patcher: Patcher):
    patcher.skip_import("flash_attn", "cuda_rasterizer.backend")
    patcher.replace_import("detector_ops.sparse", replace_with.module(SparseConv=SparseConv))
    patcher.replace_import(
        "cuda_rasterizer", base_module="torch", exports={"rasterize": torch.relu}, version="1"
    )
    patcher.inject_import("detector.model", "Detector", "zoo")
    patcher.add(AtomicPatch("detector.model.Detector.forward", forward))
    patcher.disable("tensor_index").disallow_internal_format()
    return patcher
