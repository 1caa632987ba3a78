"""Activations and gated activations (Shazeer, 2020, https://arxiv.org/abs/2002.05202)."""

from __future__ import annotations

from typing import Callable

import torch
from torch.nn import functional

from ..differentiation import gradients, upcast

_FAST_GELU_FACTOR = 1.702


def _first_gradient(
    function: Callable[[torch.Tensor], torch.Tensor], input: torch.Tensor, grad_output: torch.Tensor
) -> torch.Tensor:
    (gradient,) = gradients(function, (input,), grad_output)
    assert gradient is not None
    return gradient


def swiglu(input: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """silu(first half) * second half along `dim`."""
    gate, up = upcast(input).chunk(2, dim)
    return (functional.silu(gate) * up).to(input.dtype)


def swiglu_backward(grad_output: torch.Tensor, input: torch.Tensor, dim: int = -1) -> torch.Tensor:
    return _first_gradient(lambda x: swiglu(x, dim), input, grad_output)


def _gelu_of_code(x: torch.Tensor, approximate: int) -> torch.Tensor:
    return functional.gelu(x, approximate="tanh" if approximate == 1 else "none")


def geglu(
    input: torch.Tensor, dim: int = -1, approximate: int = 1, activate_left: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """One half times gelu(other half): the right half is activated unless `activate_left`.

    Returns the product and the activated half. `approximate` 1 is the tanh form, 0 the erf form.
    """
    left, right = upcast(input).chunk(2, dim)
    value, gate = (right, left) if activate_left else (left, right)
    activated = _gelu_of_code(gate, approximate)
    return (value * activated).to(input.dtype), activated.to(input.dtype)


def geglu_grad(
    grad_output: torch.Tensor,
    input: torch.Tensor,
    gelu: torch.Tensor,
    dim: int = -1,
    approximate: int = 1,
    activate_left: bool = False,
) -> torch.Tensor:
    return _first_gradient(lambda x: geglu(x, dim, approximate, activate_left)[0], input, grad_output)


def fast_gelu(input: torch.Tensor) -> torch.Tensor:
    """x * sigmoid(1.702 x), the sigmoid form of Hendrycks and Gimpel (2016); not the erf form."""
    x = upcast(input)
    return (x * torch.sigmoid(_FAST_GELU_FACTOR * x)).to(input.dtype)


def fast_gelu_backward(grad: torch.Tensor, input: torch.Tensor) -> torch.Tensor:
    return _first_gradient(fast_gelu, input, grad)


def gelu(input: torch.Tensor, *, approximate: str = "none") -> torch.Tensor:
    return functional.gelu(input, approximate=approximate)


def gelu_backward(
    grad_output: torch.Tensor, input: torch.Tensor, *, approximate: str = "none"
) -> torch.Tensor:
    return _first_gradient(lambda x: functional.gelu(x, approximate=approximate), input, grad_output)


def silu_in_place(input: torch.Tensor) -> torch.Tensor:
    return functional.silu(input, inplace=True)


def silu_backward(grad_output: torch.Tensor, x0: torch.Tensor, x1: torch.Tensor) -> torch.Tensor:
    """Gradient at the input x0 (x1 is the output)."""
    return _first_gradient(functional.silu, x0, grad_output)


def mish_backward(grad: torch.Tensor, input: torch.Tensor) -> torch.Tensor:
    return _first_gradient(functional.mish, input, grad)


def scaled_masked_softmax(
    x: torch.Tensor, mask: torch.Tensor | None, scale: float = 1, fixed_triu_mask: bool = False
) -> torch.Tensor:
    """softmax of scale * x over the last dimension, positions where mask is True being excluded."""
    if fixed_triu_mask:
        mask = torch.ones(x.shape[-2:], dtype=torch.bool).triu(1)
    assert mask is not None
    return torch.softmax((upcast(x) * scale).masked_fill(mask, float("-inf")), dim=-1).to(x.dtype)


REFERENCES = {
    "npu::npu_swiglu": swiglu,
    "npu::npu_swiglu_backward": swiglu_backward,
    "npu::npu_geglu": geglu,
    "npu::npu_geglu_grad": geglu_grad,
    "npu::fast_gelu": fast_gelu,
    "npu::npu_fast_gelu": fast_gelu,
    "npu::npu_fast_gelu_backward": fast_gelu_backward,
    "npu::npu_gelu": gelu,
    "npu::npu_gelu_backward": gelu_backward,
    "npu::npu_silu": functional.silu,
    "npu::npu_silu_": silu_in_place,
    "npu::npu_silu_backward": silu_backward,
    "npu::npu_mish": functional.mish,
    "npu::npu_mish_backward": mish_backward,
    "npu::npu_scaled_masked_softmax": scaled_masked_softmax,
}
