"""Fused element-wise operators and pooling."""

from __future__ import annotations

import torch
from torch.nn import functional


def npu_add_relu(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return functional.relu(x + y)


def npu_add_relu_grad(output: torch.Tensor, grad_output: torch.Tensor) -> torch.Tensor:
    return grad_output * (output > 0)


def npu_max_pool2d(x: torch.Tensor, kernel_size: int, stride: int, padding: int) -> torch.Tensor:
    """Only the pooling of a ResNet stem: kernel 3, stride 2, padding 1."""
    if (kernel_size, stride, padding) != (3, 2, 1):
        raise RuntimeError(
            "npu_max_pool2d: only kernel_size 3, stride 2, padding 1 is supported, got "
            f"{kernel_size}, {stride}, {padding}"
        )
    if x.dtype not in (torch.float32, torch.float16):
        raise RuntimeError(f"npu_max_pool2d: only float32 and float16 are supported, got {x.dtype}")
    return functional.max_pool2d(x, kernel_size, stride, padding)


REFERENCES = {
    "npu_add_relu": npu_add_relu,
    "npu_add_relu_grad": npu_add_relu_grad,
    "npu_max_pool2d": npu_max_pool2d,
}
