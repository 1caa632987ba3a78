"""mmcv 1.x: copying a batch to devices on streams of their own."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Mapping, Sequence, Union

from patcher_core import AtomicPatch, Patch

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    Batch = Union[Tensor, Sequence["Batch"]]

MMCV_1 = ("mmcv>=1.4,<2", "mmcv-full>=1.4,<2")


class Stream(Patch):
    """``mmcv.parallel._functions.Scatter.forward`` on whatever accelerator is there."""

    name = "stream"
    legacy_name = "stream"
    library = "mmcv"
    requires = MMCV_1
    why = (
        "it copies with torch.cuda streams only, and asks torch for a stream by the number of a device, which torch"
        " takes as an error since 2.1"
    )
    upstream = "mmcv/parallel/_functions.py, mmcv 1.4.0 to 1.7.2"
    until = "mmcv 2.0, which has no mmcv.parallel"

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        return [AtomicPatch("mmcv.parallel._functions.Scatter.forward", scatter)]


def scatter(target_gpus: list[int], input: Batch) -> tuple[Batch, ...]:
    """Copy a tensor, or a (nested) list of tensors, to devices.

    Args:
        target_gpus: numbers of devices of the accelerator; ``[-1]`` leaves everything where it is. A list is dealt out
            in as many equal parts.
        input: what lies on the CPU is copied on a stream of its own, for which the current stream is made to wait.

    Returns:
        What was given, in a tuple of the entries of the list, or of the one tensor.

    Raises:
        TypeError: ``input`` holds something else than tensors.
    """
    devices = [None if number == -1 else _device(number) for number in target_gpus]
    outputs = _copy(input, devices, on_side_stream=not _holds_accelerated(input))
    return tuple(outputs) if isinstance(outputs, list) else (outputs,)


def _copy(input: Batch, devices: Sequence[torch.device | None], on_side_stream: bool) -> Batch:
    import torch

    if isinstance(input, list):
        part = (len(input) - 1) // len(devices) + 1
        return [_copy(entry, [devices[index // part]], on_side_stream) for index, entry in enumerate(input)]
    if not isinstance(input, torch.Tensor):
        raise TypeError(f"found a {type(input).__name__} in the batch, expected tensors and lists of tensors")
    tensor, device = input.contiguous(), devices[0]
    if device is None:
        return tensor
    if not on_side_stream or tensor.numel() == 0:
        return tensor.to(device, non_blocking=True)
    return _copied_on_side_stream(tensor, device)


def _copied_on_side_stream(tensor: Tensor, device: torch.device) -> Tensor:
    import torch

    accelerator = getattr(torch, device.type)
    with accelerator.device(device):
        side_stream, current_stream = _side_stream(device), accelerator.current_stream()
        with accelerator.stream(side_stream):
            copy = tensor.to(device, non_blocking=True)
        current_stream.wait_stream(side_stream)
        # The memory was taken on the side stream; it must not be reused before the current one is done with it.
        copy.record_stream(current_stream)
    return copy


@functools.lru_cache(maxsize=None)
def _side_stream(device: torch.device) -> Any:
    """One stream for each device, as long as the process."""
    import torch

    return getattr(torch, device.type).Stream(device=device)


def _holds_accelerated(input: Batch) -> bool:
    if isinstance(input, list):
        return any(map(_holds_accelerated, input))
    return getattr(getattr(input, "device", None), "type", "cpu") != "cpu"


def _device(number: int) -> torch.device:
    import torch

    kind = next(
        (kind for kind in ("npu", "cuda") if hasattr(torch, kind) and getattr(torch, kind).is_available()),
        None,
    )
    if kind is None:
        raise RuntimeError(
            f"cannot copy to device {number}: there is neither an NPU nor a CUDA device; use gpu_ids=[-1]"
        )
    return torch.device(kind, number)
