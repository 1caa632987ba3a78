"""Operators that exist only as the backward half of torch_npu's own autograd formulas, and dropout.

torch_npu differentiates a few ordinary aten operators by formulas of its own (`derivatives.yaml`), which call
these.
"""

from __future__ import annotations

from typing import Any, Callable, Sequence

import torch
from torch.nn import functional

from ..differentiation import gradients
from ..randomness import device_generator

#: at::Reduction
_REDUCTIONS = ("none", "mean", "sum")
_FFT_NORMALIZATIONS = ("backward", "ortho", "forward")


def _gradient(
    function: Callable[[torch.Tensor], torch.Tensor], shape_of: torch.Tensor, grad: torch.Tensor
) -> Any:
    with torch.enable_grad():
        leaf = shape_of.detach().requires_grad_()
        return torch.autograd.grad(function(leaf), leaf, grad)[0]


def gather_backward(
    grad: torch.Tensor, self_size: Sequence[int], dim: int, index: torch.Tensor, sparse_grad: bool
) -> torch.Tensor:
    return torch.zeros(tuple(self_size), dtype=grad.dtype).scatter_add(dim, index, grad)


def renorm_backward(grad: torch.Tensor, input: torch.Tensor, p: float, dim: int, maxnorm: float) -> Any:
    return gradients(lambda x: torch.renorm(x, p, dim, maxnorm), (input,), grad)[0]


def binary_cross_entropy_with_logits_backward(
    grad_output: torch.Tensor,
    input: torch.Tensor,
    target: torch.Tensor,
    weight_opt: torch.Tensor | None,
    pos_weight_opt: torch.Tensor | None,
    reduction: int,
) -> Any:
    def loss(logits: torch.Tensor) -> torch.Tensor:
        return functional.binary_cross_entropy_with_logits(
            logits, target, weight_opt, pos_weight=pos_weight_opt, reduction=_REDUCTIONS[reduction]
        )

    return gradients(loss, (input,), grad_output)[0]


def fft_r2c_backward(
    grad: torch.Tensor, dim: Sequence[int], normalization: int, onesided: bool, last_dim_size: int
) -> Any:
    shape = list(grad.shape)
    shape[dim[-1]] = last_dim_size
    input = torch.zeros(shape, dtype=grad.real.dtype)
    return _gradient(lambda x: torch._fft_r2c(x, dim, normalization, onesided), input, grad)


def fft_c2r_backward(grad: torch.Tensor, dim: Sequence[int], normalization: int) -> Any:
    shape = list(grad.shape)
    last_dim_size = shape[dim[-1]]
    shape[dim[-1]] = last_dim_size // 2 + 1
    input = torch.zeros(shape, dtype=torch.promote_types(grad.dtype, torch.complex64))
    return _gradient(lambda x: torch._fft_c2r(x, dim, normalization, last_dim_size), input, grad)


def matmul_backward(
    grad: torch.Tensor, self: torch.Tensor, other: torch.Tensor, mask: Sequence[bool]
) -> tuple[torch.Tensor | None, ...]:
    found: list[torch.Tensor | None] = gradients(torch.matmul, (self, other), grad)
    return tuple(gradient if wanted else None for gradient, wanted in zip(found, mask))


def dropout(input: torch.Tensor, p: float) -> tuple[torch.Tensor, torch.Tensor]:
    """The result and its mask, which a device packs into bits and only the backward operator reads."""
    kept = torch.rand(input.shape, generator=device_generator()) >= p
    return (input * kept / (1 - p)).to(input.dtype), kept.to(torch.uint8)


def dropout_backward(grad_output: torch.Tensor, mask: torch.Tensor, p: float) -> torch.Tensor:
    return (grad_output * mask / (1 - p)).to(grad_output.dtype)


REFERENCES = {
    "npu::npu_gather_backward": gather_backward,
    "npu::npu_renorm_backward": renorm_backward,
    "npu::npu_binary_cross_entropy_with_logits_backward": binary_cross_entropy_with_logits_backward,
    "npu::fft_r2c_backward": fft_r2c_backward,
    "npu::fft_c2r_backward": fft_c2r_backward,
    "npu::_npu_dropout": dropout,
    "npu::npu_dropout_backward": dropout_backward,
    "aten::matmul_backward": matmul_backward,
}
