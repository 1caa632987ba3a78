"""What surrounds a call of every function here: a compiled function knows neither autograd nor autocast."""

from __future__ import annotations

import functools
from typing import Any, Callable

import torch

__all__ = ["like_a_compiled_function"]


def like_a_compiled_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``function`` so that no gradient is recorded and no autocast is active inside it.

    Compiled functions work on raw memory: they write into outputs that are given, in the dtype of those
    outputs. With autocast active inside, a matrix product would silently run, and round, in half precision.
    The device is that of the first tensor among the arguments.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        device_type = _device_type(args, kwargs)
        with torch.no_grad():
            if device_type in (None, "meta"):
                return function(*args, **kwargs)
            with torch.autocast(device_type, enabled=False):
                return function(*args, **kwargs)

    return call


def _device_type(args: tuple, kwargs: dict) -> str | None:
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Tensor):
            return value.device.type
    return None
