"""Active rotating filters: one convolution filter, written out in several orientations.

Zhou et al., "Oriented Response Networks", 2017, https://arxiv.org/abs/1701.01833; used by S2ANet
(https://arxiv.org/abs/2008.09397). A filter has shape (out planes, in planes, orientations, H, W);
``indices`` (orientations, H, W, R) int32 says, for each of its R rotations, to which entry of the rotated
filter an entry moves, counted from 1 (mmcv 2.1.0, ``active_rotated_filter.cpp``).
"""

from __future__ import annotations

from torch import Tensor

__all__ = ["active_rotated_filter_backward", "active_rotated_filter_forward"]


def active_rotated_filter_forward(input: Tensor, indices: Tensor, output: Tensor) -> None:
    """Write all rotations of the filters into ``output`` (out planes R, in planes orientations, H, W)."""
    out_planes, in_planes = input.shape[:2]
    destination, rotations = _entry_destinations(indices)
    rotated = output.view(out_planes, rotations, in_planes, len(destination))
    entries = input.reshape(out_planes, in_planes, len(destination))
    for rotation in range(rotations):
        rotated[:, rotation].index_copy_(2, destination[:, rotation], entries)


def active_rotated_filter_backward(grad_out: Tensor, indices: Tensor, grad_in: Tensor) -> None:
    """Write the sum of the gradients of all rotations, turned back, into ``grad_in``."""
    out_planes, in_planes = grad_in.shape[:2]
    destination, rotations = _entry_destinations(indices)
    rotated = grad_out.reshape(out_planes, rotations, in_planes, len(destination))
    entries = grad_in.zero_().view(out_planes, in_planes, len(destination))
    for rotation in range(rotations):
        entries += rotated[:, rotation].index_select(2, destination[:, rotation])


def _entry_destinations(indices: Tensor) -> tuple[Tensor, int]:
    """(entries of a filter, R) int64, counted from 0, and R."""
    rotations = indices.shape[-1]
    return indices.reshape(-1, rotations).long() - 1, rotations
