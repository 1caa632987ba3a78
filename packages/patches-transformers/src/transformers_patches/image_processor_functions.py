"""What :mod:`transformers_patches.image_processors` wraps around upstream's methods; it imports torch."""

from __future__ import annotations

import math
import os
from typing import Any, Callable, Sequence

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

#: Dimensions that a copy on an NPU can have.
LARGEST_RANK = 8


def on_the_ranks_npu(process_image: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """``process_image(self, image, ..., device=None)`` with the NPU of this rank for ``device=None``."""

    def process_image_on_npu(self: Any, image: Any, *args: Any, **kwargs: Any) -> Tensor:
        # do_convert_rgb, input_data_format, device
        device = args[2] if len(args) > 2 else kwargs.get("device")
        processed = process_image(self, image, *args, **kwargs)
        return processed.to(_device_of_this_rank()) if device is None else processed

    return process_image_on_npu


def _device_of_this_rank() -> torch.device:
    return torch.device("npu", int(os.environ.get("LOCAL_RANK", 0)))


def with_permutes_in_parts(preprocess: Callable[..., Any]) -> Callable[..., Any]:
    """``preprocess`` with :func:`permute_in_parts` for what an NPU cannot permute at once."""

    def preprocess_in_parts(self: Any, *args: Any, **kwargs: Any) -> Any:
        with _PermutesInParts():
            return preprocess(self, *args, **kwargs)

    return preprocess_in_parts


class _PermutesInParts(TorchFunctionMode):
    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in (Tensor.permute, torch.permute) and not kwargs:
            tensor, *order = args
            if tensor.device.type == "npu" and tensor.dim() > LARGEST_RANK:
                return permute_in_parts(tensor, order[0] if len(order) == 1 else order)
        return func(*args, **(kwargs or {}))


def permute_in_parts(tensor: Tensor, order: Sequence[int]) -> Tensor:
    """``tensor.permute(order)`` in memory of its own, in two copies of fewer dimensions each.

    The first brings the second half of the dimensions into place behind the others, the second puts those in order.
    """
    order = [dimension % tensor.dim() for dimension in order]
    middle = len(order) // 2
    first, second = order[:middle], order[middle:]
    kept = sorted(first)
    halfway = _permuted(tensor, [*kept, *second])
    return _permuted(halfway, [*(kept.index(one) for one in first), *range(middle, len(order))])


def _permuted(tensor: Tensor, order: Sequence[int]) -> Tensor:
    """The same for one copy, in which dimensions that stay neighbours count as one."""
    groups: list[list[int]] = []
    for dimension in order:
        if groups and groups[-1][-1] + 1 == dimension:
            groups[-1].append(dimension)
        else:
            groups.append([dimension])
    before = sorted(groups)
    merged = tensor.reshape([math.prod(tensor.shape[one] for one in group) for group in before])
    copied = merged.permute([before.index(group) for group in groups]).contiguous()
    return copied.view([tensor.shape[dimension] for dimension in order])
