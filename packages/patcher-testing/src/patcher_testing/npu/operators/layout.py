"""Operators that move or relabel data: storage formats, dtype casts, transposes."""

from __future__ import annotations

from typing import Any, Sequence

import torch

#: c10::ScalarType (c10/core/ScalarType.h, PyTorch 2.13): a schema's `int dtype` receives a torch.dtype as
#: this number
_DTYPE_OF_CODE = {
    0: torch.uint8,
    1: torch.int8,
    2: torch.int16,
    3: torch.int32,
    4: torch.int64,
    5: torch.float16,
    6: torch.float32,
    7: torch.float64,
    11: torch.bool,
    15: torch.bfloat16,
}


def format_cast(input: torch.Tensor, acl_format: Any, *options: Any, **named_options: Any) -> torch.Tensor:
    """The same values: the simulated device knows no private storage formats."""
    return input.clone()


def format_cast_in_place(input: torch.Tensor, source: Any, **options: Any) -> torch.Tensor:
    return input


def dtype_cast(input: torch.Tensor, dtype: Any, input_dtype: int | None = None) -> torch.Tensor:
    return input.to(_as_dtype(dtype))


def dtype_cast_backward(grad: torch.Tensor, dtype: Any, *options: Any, **named_options: Any) -> torch.Tensor:
    return grad.to(_as_dtype(dtype))


def _as_dtype(dtype: Any) -> torch.dtype:
    if isinstance(dtype, torch.dtype):
        return dtype
    if dtype not in _DTYPE_OF_CODE:
        raise RuntimeError(f"npu_dtype_cast: unknown dtype code {dtype!r}")
    return _DTYPE_OF_CODE[dtype]


def transpose(input: torch.Tensor, perm: Sequence[int], require_contiguous: bool = True) -> torch.Tensor:
    return input.permute(*perm).contiguous()


def confusion_transpose(
    input: torch.Tensor, perm: Sequence[int], shape: Sequence[int], transpose_first: bool
) -> torch.Tensor:
    """permute then view (`transpose_first`), or view then permute."""
    if transpose_first:
        return input.permute(*perm).contiguous().view(*shape)
    return input.contiguous().view(*shape).permute(*perm).contiguous()


def confusion_transpose_backward(
    grad: torch.Tensor, perm: Sequence[int], shape: Sequence[int], transpose_first: bool
) -> torch.Tensor:
    """torch_npu's autograd formula passes the shape of the forward's input and negates the forward's flag.

    Hence `transpose_first` here means that the forward viewed first.
    """
    inverse = [list(perm).index(dim) for dim in range(len(perm))]
    if transpose_first:
        return grad.permute(*inverse).contiguous().view(*shape)
    permuted_shape = [shape[dim] for dim in perm]
    return grad.contiguous().view(*permuted_shape).permute(*inverse).contiguous()


REFERENCES = {
    "npu::npu_format_cast": format_cast,
    "npu::npu_format_cast_": format_cast_in_place,
    "npu::_npu_format_cast": format_cast,
    "npu::npu_dtype_cast": dtype_cast,
    "npu::_npu_dtype_cast": dtype_cast,
    "npu::npu_dtype_cast_backward": dtype_cast_backward,
    "npu::_npu_dtype_cast_backward": dtype_cast_backward,
    "npu::npu_transpose": transpose,
    "npu::npu_confusion_transpose": confusion_transpose,
    "npu::npu_confusion_transpose_backward": confusion_transpose_backward,
}
