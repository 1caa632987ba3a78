"""Tensors of the simulated device seen as CPU tensors, and the other way round.

The simulated device's memory is host memory, so a CPU tensor can lie over the same bytes: nothing is copied
on the way into a CPU kernel, and what it writes in place is written on the device.
"""

from __future__ import annotations

import ctypes
from typing import Any, Callable, TypeVar

import torch

Value = TypeVar("Value")

DEVICE_TYPE = "npu"


def is_device_tensor(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == DEVICE_TYPE


def host_view(tensor: torch.Tensor) -> torch.Tensor:
    """A CPU tensor of the same size, strides and dtype over the memory of a device tensor.

    It owns nothing: it is valid as long as `tensor` lives.
    """
    storage = tensor.untyped_storage()
    size_in_bytes = storage.nbytes()
    if size_in_bytes == 0:
        return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype)
    memory = (ctypes.c_char * size_in_bytes).from_address(storage.data_ptr())
    raw = torch.frombuffer(memory, dtype=torch.uint8).untyped_storage()
    view = torch.empty(0, dtype=tensor.dtype)
    view.set_(raw, tensor.storage_offset(), tensor.size(), tensor.stride())
    return view.conj() if tensor.is_conj() else view


def to_device(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A device tensor with the values, dtype, size and (where it is dense) the strides of a CPU tensor."""
    if tensor.numel() == 0:
        return torch.empty(tensor.size(), dtype=tensor.dtype, device=device)
    storage = tensor.untyped_storage()
    is_dense = tensor.storage_offset() == 0 and storage.nbytes() == tensor.numel() * tensor.element_size()
    if not is_dense or tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg().clone()
        storage = tensor.untyped_storage()
    result = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=device)
    ctypes.memmove(result.data_ptr(), storage.data_ptr(), storage.nbytes())
    return result


def map_nested(function: Callable[[Any], Any], value: Any) -> Any:
    """Apply `function` to the leaves of nested lists and tuples, the only containers in an operator's
    arguments.
    """
    if isinstance(value, (list, tuple)):
        return type(value)([map_nested(function, item) for item in value])
    return function(value)


def device_of(*values: Any) -> torch.device:
    """The device of the first device tensor (or device argument) among `values`, else the current device."""
    for value in values:
        if isinstance(value, (list, tuple)):
            found = next((item.device for item in value if is_device_tensor(item)), None)
            if found is not None:
                return found
        elif is_device_tensor(value):
            return value.device
        elif isinstance(value, torch.device) and value.type == DEVICE_TYPE and value.index is not None:
            return value
    return torch.device(DEVICE_TYPE, torch.npu.current_device())
