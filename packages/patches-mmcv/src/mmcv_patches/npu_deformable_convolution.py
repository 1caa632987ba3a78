"""What both deformable convolutions of ``mx_driving`` take."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["takes"]


def takes(input: Tensor, offset: Tensor, weight: Tensor, groups: int, deform_groups: int) -> bool:
    """True for a batch on an NPU, offsets in single or half precision, one deformable group, and groups that fit.

    ``input`` (N, C, H, W), ``weight`` (outputs, C / groups, kernel H, kernel W).
    """
    import torch

    return (
        input.dim() == 4
        and input.device.type == "npu"
        and len(input) > 0
        and offset.dtype in (torch.float32, torch.float16, torch.bfloat16)
        and deform_groups == 1
        and input.shape[1] == groups * weight.shape[1]
        and weight.shape[0] % groups == 0
    )
