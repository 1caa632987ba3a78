"""Backward functions that have no derivative themselves, declared without importing torch."""

from __future__ import annotations

import functools
from typing import Any, Callable

__all__ = ["once_differentiable"]

_Backward = Callable[..., "tuple[Any, ...]"]


def once_differentiable(backward: _Backward) -> _Backward:
    """``torch.autograd.function.once_differentiable``, looked up when ``backward`` first runs.

    The operators here write into memory that they are given, where autograd does not see them. Without this a second
    derivative would silently lack their part; with it torch raises RuntimeError when one is asked for.
    """

    @functools.wraps(backward)
    def first_derivative(ctx: Any, *grad_outputs: Any) -> tuple[Any, ...]:
        from torch.autograd.function import once_differentiable as torch_once_differentiable

        return torch_once_differentiable(backward)(ctx, *grad_outputs)

    return first_derivative
