"""RMSNorm (Zhang and Sennrich, 2019, https://arxiv.org/abs/1910.07467) and LayerNorm in the forms torch_npu
offers.
"""

from __future__ import annotations

from typing import Sequence

import torch

from ..differentiation import upcast


def _check_gamma(x: torch.Tensor, gamma: torch.Tensor) -> None:
    if gamma.dim() > x.dim() or x.shape[x.dim() - gamma.dim() :] != gamma.shape:
        raise RuntimeError(
            f"gamma {tuple(gamma.shape)} must equal the last dimensions of input {tuple(x.shape)}"
        )


def _reciprocal_rms(x: torch.Tensor, gamma: torch.Tensor, epsilon: float) -> torch.Tensor:
    normalized_dims = tuple(range(x.dim() - gamma.dim(), x.dim()))
    return torch.rsqrt(x.square().mean(normalized_dims, keepdim=True) + epsilon)


def rms_norm(
    input: torch.Tensor, gamma: torch.Tensor, epsilon: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor]:
    """y = x / rms(x) * gamma in the dtype of x (also with a float32 gamma), and 1 / rms(x) in float32."""
    _check_gamma(input, gamma)
    x = upcast(input)
    rstd = _reciprocal_rms(x, gamma, epsilon)
    return (x * rstd * gamma).to(input.dtype), rstd


def rms_norm_backward(
    dy: torch.Tensor, input: torch.Tensor, gamma: torch.Tensor, rstd: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Gradients for x (its dtype) and gamma (float32, whatever gamma's dtype is)."""
    normalized_dims = tuple(range(input.dim() - gamma.dim(), input.dim()))
    batch_dims = tuple(range(input.dim() - gamma.dim()))
    normalized = upcast(input) * rstd
    dy = upcast(dy)
    dgamma = dy * normalized
    if batch_dims:
        dgamma = dgamma.sum(batch_dims)
    scaled = dy * gamma
    dx = rstd * (scaled - normalized * (scaled * normalized).mean(normalized_dims, keepdim=True))
    return dx.to(input.dtype), dgamma


def gemma_rms_norm(
    input: torch.Tensor, gamma: torch.Tensor, epsilon: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor]:
    """RMSNorm whose weight is 1 + gamma."""
    return rms_norm(input, 1 + upcast(gamma), epsilon)


def add_rms_norm(
    x1: torch.Tensor, x2: torch.Tensor, gamma: torch.Tensor, epsilon: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """RMSNorm of x1 + x2: y, 1 / rms and the sum itself."""
    _check_gamma(x1, gamma)
    total = upcast(x1) + upcast(x2)
    rstd = _reciprocal_rms(total, gamma, epsilon)
    return (total * rstd * gamma).to(x1.dtype), rstd, total.to(x1.dtype)


def layer_norm_eval(
    input: torch.Tensor,
    normalized_shape: Sequence[int],
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
) -> torch.Tensor:
    return torch.nn.functional.layer_norm(input, list(normalized_shape), weight, bias, eps)


REFERENCES = {
    "npu::npu_rms_norm": rms_norm,
    "npu::npu_rms_norm_backward": rms_norm_backward,
    "npu::npu_gemma_rms_norm": gemma_rms_norm,
    "npu::npu_add_rms_norm": add_rms_norm,
    "npu::npu_layer_norm_eval": layer_norm_eval,
}
