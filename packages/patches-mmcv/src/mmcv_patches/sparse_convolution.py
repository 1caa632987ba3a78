"""Sparse convolution (SECOND, Part-A2, CenterPoint, Cylinder3D): mmcv's ``SparseConvolution`` and its kin.

The classes stay mmcv's own. What is replaced is the one method that all of them run, so modules built from a
registry, subclasses, checkpoints and models that exist already all use the replacement, and tensors keep
their class.
"""

from __future__ import annotations

import functools
from typing import Any, Mapping

from patcher_core import AtomicPatch, Patch, backend_of

from .compiled_operators import run_on_cuda

_FORWARD = "mmcv.ops.sparse_conv.SparseConvolution.forward"
_OPERATORS = "mmcv.ops.sparse_ops.ext_module"

#: Where a sparse tensor's ``indice_dict`` keeps what ``mx_driving`` found for its ``indice_key``.
_NPU_RULE_BOOKS = ("mx_driving", "rule books")


class SparseConv3D(Patch):
    """``SparseConvolution.forward``: ``mx_driving``'s operators on an NPU, plain PyTorch elsewhere.

    It serves ``SubMConv3d``, ``SparseConv3d`` and ``SparseInverseConv3d``. What the NPU operators do not take
    (other numbers of axes, transposed convolution, dilation, kernels that are not cubic in a submanifold
    convolution, an inverse convolution whose couple did not run there, dtypes other than float32 and float16)
    is done in plain PyTorch.
    """

    name = "spconv3d"
    legacy_name = "spconv3d"
    library = "mmcv"
    backends = ("npu", "portable")
    why = "mmcv's sparse convolution has kernels for CUDA only"
    upstream = "mmcv/ops/sparse_conv.py and sparse_ops.py, mmcv 1.7.2 to 2.2.0"
    until = "mmcv brings a kernel for the device"

    original_runs_here = staticmethod(run_on_cuda)

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        patches = [AtomicPatch(_OPERATORS, target_wrapper=portable_operators)]
        if backend_of(options) == "npu":
            patches.append(AtomicPatch(_FORWARD, npu_forward, runtime_check=fits_npu))
        return patches


def portable_operators(compiled: Any) -> Any:
    """``mmcv._ext`` in plain PyTorch, in place of the module that mmcv's functions call."""
    from .extension import build_extension_module

    return build_extension_module()


def fits_npu(self: Any, input: Any) -> bool:
    """True for convolutions and inputs that ``mx_driving`` takes."""
    import torch

    features = input.features
    if features.device.type != "npu" or features.dtype not in (torch.float32, torch.float16):
        return False
    if self.ndim != 3 or self.groups != 1 or self.transposed or self.fused_bn or self.conv1x1:
        return False
    if input.indices.shape[0] == 0 or input.indices.dtype != torch.int32:
        return False
    if self.inverse:
        return self.indice_key in input.indice_dict.get(_NPU_RULE_BOOKS, {})
    if any(step != 1 for step in self.dilation):
        return False
    if not self.subm:
        return True
    is_odd_cube = self.kernel_size[0] % 2 == 1 and len(set(self.kernel_size)) == 1
    return is_odd_cube and _npu_has_submanifold_kernel(features.device.index)


@functools.lru_cache(maxsize=None)
def _npu_has_submanifold_kernel(device_index: int) -> bool:
    import torch

    name = torch.npu.get_device_name(device_index)
    return "Ascend910" in name or "Ascend950" in name


def npu_forward(self: Any, input: Any) -> Any:
    """``mx_driving``'s convolution with this module's weight and settings, on mmcv's own sparse tensors."""
    import mx_driving

    rule_books = input.indice_dict.setdefault(_NPU_RULE_BOOKS, {})
    given = mx_driving.SparseConvTensor(
        input.features, input.indices, list(input.spatial_shape), input.batch_size
    )
    given.indice_dict = rule_books
    found = mx_driving.SparseConvolution.forward(self, given)
    output = type(input)(found.features, found.indices, found.spatial_shape, input.batch_size)
    output.indice_dict = input.indice_dict
    output.grid = input.grid
    return output
