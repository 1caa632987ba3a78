"""Corner pooling: the running maximum from one side of an image (mmcv 1.x before 1.5).

Law and Deng, "CornerNet", 2018, https://arxiv.org/abs/1808.01244. The direction names the side that the
maximum moves to: ``bottom`` is the maximum over all rows above and including a pixel, ``top`` over those
below, ``right`` over the columns to the left, ``left`` over those to the right. The gradient goes to the
pixel where the maximum was first met (mmcv 1.4.0, ``corner_pool.cpp``). Tensors are (N, C, H, W), floating
point.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .precision import accumulation_dtype

__all__ = [
    "bottom_pool_backward",
    "bottom_pool_forward",
    "left_pool_backward",
    "left_pool_forward",
    "right_pool_backward",
    "right_pool_forward",
    "top_pool_backward",
    "top_pool_forward",
]

_ROWS, _COLUMNS = 2, 3


def bottom_pool_forward(input: Tensor) -> Tensor:
    """The running maximum down the rows, of the shape of ``input``."""
    return _running_maximum(input, _ROWS)


def bottom_pool_backward(input: Tensor, grad_output: Tensor) -> Tensor:
    """The gradient of :func:`bottom_pool_forward` by ``input``."""
    return _running_maximum_backward(input, grad_output, _ROWS)


def top_pool_forward(input: Tensor) -> Tensor:
    """The running maximum up the rows, of the shape of ``input``."""
    return _running_maximum(input.flip(_ROWS), _ROWS).flip(_ROWS)


def top_pool_backward(input: Tensor, grad_output: Tensor) -> Tensor:
    """The gradient of :func:`top_pool_forward` by ``input``."""
    return bottom_pool_backward(input.flip(_ROWS), grad_output.flip(_ROWS)).flip(_ROWS)


def right_pool_forward(input: Tensor) -> Tensor:
    """The running maximum along the columns, of the shape of ``input``."""
    return _running_maximum(input, _COLUMNS)


def right_pool_backward(input: Tensor, grad_output: Tensor) -> Tensor:
    """The gradient of :func:`right_pool_forward` by ``input``."""
    return _running_maximum_backward(input, grad_output, _COLUMNS)


def left_pool_forward(input: Tensor) -> Tensor:
    """The running maximum back along the columns, of the shape of ``input``."""
    return _running_maximum(input.flip(_COLUMNS), _COLUMNS).flip(_COLUMNS)


def left_pool_backward(input: Tensor, grad_output: Tensor) -> Tensor:
    """The gradient of :func:`left_pool_forward` by ``input``."""
    return right_pool_backward(input.flip(_COLUMNS), grad_output.flip(_COLUMNS)).flip(_COLUMNS)


def _running_maximum(input: Tensor, dim: int) -> Tensor:
    # Not every device has a running maximum in half precision; by way of float32 it is the same.
    return input.to(accumulation_dtype(input)).cummax(dim).values.to(input.dtype)


def _running_maximum_backward(input: Tensor, grad_output: Tensor, dim: int) -> Tensor:
    grad_input = torch.zeros_like(input)
    length = input.shape[dim]
    if length:
        # cummax reports the last of several equal maxima; the kernel keeps the first.
        maximum = _running_maximum(input, dim)
        rises = torch.ones_like(input, dtype=torch.bool)
        rises.narrow(dim, 1, length - 1).copy_(
            input.narrow(dim, 1, length - 1) > maximum.narrow(dim, 0, length - 1)
        )
        shape = [length if axis == dim else 1 for axis in range(input.dim())]
        position = torch.arange(length, device=input.device).view(shape)
        source = position.expand_as(rises).masked_fill(~rises, 0).cummax(dim).values
        grad_input.scatter_add_(dim, source, grad_output)
    return grad_input
