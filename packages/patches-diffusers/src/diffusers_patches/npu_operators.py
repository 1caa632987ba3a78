"""The operators of :mod:`~diffusers_patches.portable_operators` on an NPU, each as one fused operator of torch_npu.

What is not on an NPU, or in a dtype that the operator does not take, is computed by the portable one. Operators
compute in float32 and round once, where upstream rounds in between as well.
"""

from __future__ import annotations

import torch
from torch import Tensor

from . import portable_operators as portable

_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def _fits(x: Tensor) -> bool:
    return x.device.type == "npu" and x.dtype in _DTYPES


def _npu_rms_norm(x: Tensor, weight: Tensor | None, epsilon: float) -> Tensor:
    """In the dtype of ``x``, which that of ``weight`` (N,) must be as well."""
    import torch_npu

    gamma = x.new_ones(x.shape[-1]) if weight is None else weight
    return torch_npu.npu_rms_norm(x, gamma, epsilon=epsilon)[0]


def rms_norm_in_dtype_of_weight(x: Tensor, weight: Tensor | None, epsilon: float) -> Tensor:
    if not _fits(x):
        return portable.rms_norm_in_dtype_of_weight(x, weight, epsilon)
    if weight is None:
        return _npu_rms_norm(x, None, epsilon)
    if weight.shape == x.shape[-1:] and weight.dtype in (x.dtype, torch.float32):
        return _npu_rms_norm(x.to(weight.dtype), weight, epsilon)
    result = _npu_rms_norm(x.float(), None, epsilon)
    return (result.to(weight.dtype) if weight.dtype in portable.HALF_DTYPES else result) * weight


def rms_norm_in_dtype_of_input(x: Tensor, weight: Tensor | None, epsilon: float) -> Tensor:
    if not _fits(x):
        return portable.rms_norm_in_dtype_of_input(x, weight, epsilon)
    if weight is None or (weight.shape == x.shape[-1:] and weight.dtype == x.dtype):
        return _npu_rms_norm(x, weight, epsilon)
    if weight.shape == x.shape[-1:]:
        return _npu_rms_norm(x.float(), weight.float(), epsilon).to(x.dtype)
    return (_npu_rms_norm(x.float(), None, epsilon) * weight).to(x.dtype)


def geglu(x: Tensor) -> Tensor:
    if not _fits(x):
        return portable.geglu(x)
    import torch_npu

    return torch_npu.npu_geglu(x, dim=-1, approximate=0)[0]


def gelu(x: Tensor, approximate: str) -> Tensor:
    if not _fits(x):
        return portable.gelu(x, approximate)
    import torch_npu

    return torch_npu.npu_gelu(x, approximate=approximate)


def sigmoid_gelu(x: Tensor) -> Tensor:
    if not _fits(x):
        return portable.sigmoid_gelu(x)
    import torch_npu

    return torch_npu.npu_fast_gelu(x)


def _broadcasts_to(factor: Tensor, x: Tensor) -> bool:
    """Whether the operator takes the factor for ``x``: at most four dimensions, and all of the last one."""
    return (
        factor.dim() <= x.dim() <= 4
        and factor.shape[-1] == x.shape[-1]
        and all(size in (1, wanted) for size, wanted in zip(factor.shape[::-1], x.shape[::-1]))
    )


def rotated(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
    if not _fits(x) or not _broadcasts_to(cos, x) or not _broadcasts_to(sin, x):
        return portable.rotated(x, cos, sin, interleaved)
    import torch_npu

    four_dimensional = (t.float().reshape((1,) * (4 - t.dim()) + t.shape) for t in (x, cos, sin))
    mode = "interleave" if interleaved else "half"
    return torch_npu.npu_rotary_mul(*four_dimensional, mode).reshape(x.shape).to(x.dtype)
