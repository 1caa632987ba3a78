"""Backward operators from forward references, by PyTorch's autograd."""

from __future__ import annotations

from typing import Callable, Optional, Sequence

import torch

OptionalTensor = Optional[torch.Tensor]


def compute_dtype(tensor: torch.Tensor) -> torch.dtype:
    """The dtype that the device accumulates in: float32, or float64 for float64."""
    return torch.promote_types(tensor.dtype, torch.float32)


def upcast(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(compute_dtype(tensor))


def gradients(
    function: Callable[..., torch.Tensor], inputs: Sequence[OptionalTensor], grad_output: torch.Tensor
) -> list[OptionalTensor]:
    """Gradients of `function(*inputs)` with respect to each input, in the input's dtype; None for an absent
    input.

    An input that does not influence the output has a gradient of zeros.
    """
    with torch.enable_grad():
        leaves = [None if value is None else upcast(value.detach()).requires_grad_() for value in inputs]
        output = function(*leaves)
        present = [leaf for leaf in leaves if leaf is not None]
        found = iter(
            torch.autograd.grad(
                output, present, upcast(grad_output), allow_unused=True, materialize_grads=True
            )
        )
    return [None if value is None else next(found).to(value.dtype) for value in inputs]
