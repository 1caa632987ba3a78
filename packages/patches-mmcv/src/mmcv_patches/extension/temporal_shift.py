"""Temporal interlacing: groups of channels are moved along time, each by its own number of frames.

Shao et al., "Temporal Interlacing Network", 2020, https://arxiv.org/abs/2001.06499. Tensors are (N, T, C, H
W); ``shift`` is (N, G) int32, and channel ``c`` belongs to group ``c // (C / G)``.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["tin_shift_backward", "tin_shift_forward"]


def tin_shift_forward(input: Tensor, shift: Tensor, output: Tensor) -> None:
    """Write frame ``t`` of ``input`` to frame ``t + shift`` of ``output``.

    Frames that would land outside are dropped; frames of ``output`` that receive none keep their value.
    """
    _shift_frames(input, shift, output)


def tin_shift_backward(grad_output: Tensor, shift: Tensor, grad_input: Tensor) -> None:
    """Write frame ``t`` of ``grad_output`` to frame ``t + shift`` of ``grad_input``.

    This is what the kernel of mmcv 1.4.0 to 2.2.0 does (``tin_shift_cuda_kernel.cuh``: its backward moves
    frames the same way as its forward), and models were trained with it. The derivative of the forward
    would move them back, by ``-shift``.
    """
    _shift_frames(grad_output, shift, grad_input)


def _shift_frames(source: Tensor, shift: Tensor, destination: Tensor) -> None:
    batch, frames = source.shape[:2]
    groups = shift.shape[1]
    grouped_source = source.unflatten(2, (groups, -1))
    grouped_destination = destination.unflatten(2, (groups, -1))
    frame = torch.arange(frames, device=source.device)[:, None] - shift.to(torch.int64)[:, None]
    inside = (frame >= 0) & (frame < frames)
    image = torch.arange(batch, device=source.device)[:, None, None]
    group = torch.arange(groups, device=source.device)
    shifted = grouped_source[image, frame.clamp(0, frames - 1), group]
    grouped_destination.copy_(torch.where(inside[..., None, None], shifted, grouped_destination))
