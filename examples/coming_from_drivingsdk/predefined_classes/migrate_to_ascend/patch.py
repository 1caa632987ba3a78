from mx_driving.patcher import (
    DDP,
    MSDA,
    BatchMatmul,
    MultiScaleDeformableAttention,
    NumpyCompat,
    OptimizerWrapper,
    SparseConv3D,
    TensorIndex,
    default_patcher,
)


def configure_patcher(patcher):
    patcher.add(NumpyCompat, MSDA, OptimizerWrapper).disable(SparseConv3D, TensorIndex.name, BatchMatmul, DDP)


configure_patcher(default_patcher)
assert MSDA is MultiScaleDeformableAttention
