"""RoI align along Bezier curves, for curved text.

Liu et al., "ABCNet", CVPR 2020. The upper and the lower edge of a text are cubic Bezier curves; bin (i, j)
of an h x w output lies at the point i / h of the way from the upper to the lower curve, at parameter j / w.
Around it a grid of samples is laid as in ``roi_align`` (``csrc/pytorch/cpu/bezier_align.cpp``, mmcv 2.1.0).
"""

from __future__ import annotations

from typing import Iterator

import torch
from torch import Tensor

from .bilinear import border_corners
from .precision import to_accumulation_dtype
from .roi_sampling import (
    Bins,
    add_pooled_gradient,
    bins_of_samples,
    grid_positions,
    grid_sizes,
    pool,
    same_grids,
)

__all__ = ["bezier_align_backward", "bezier_align_forward"]


def bezier_align_forward(
    input: Tensor,
    rois: Tensor,
    output: Tensor,
    aligned_height: int,
    aligned_width: int,
    spatial_scale: float,
    sampling_ratio: int,
    aligned: bool,
) -> None:
    """Pool ``input`` (batch, channels, height, width) into ``output`` (rois, channels, bins, bins).

    ``rois`` is (rois, 17): image, then x and y of eight control points, four of the upper curve from left
    to right and four of the lower one from right to left, in pixels of the map once multiplied by
    ``spatial_scale``. ``aligned`` moves them by half a pixel; otherwise a RoI is one pixel large at least.
    ``sampling_ratio`` is the number of samples along each axis of a bin, 0 for as many as it has pixels.
    """
    output.zero_()
    size = (input.shape[2], input.shape[3])
    pool(input, output, _bins(rois, output, size, spatial_scale, sampling_ratio, aligned))


def bezier_align_backward(
    grad_output: Tensor,
    rois: Tensor,
    grad_input: Tensor,
    aligned_height: int,
    aligned_width: int,
    spatial_scale: float,
    sampling_ratio: int,
    aligned: bool,
) -> None:
    """Add the gradient of :func:`bezier_align_forward` for its input to ``grad_input``."""
    size = (grad_input.shape[2], grad_input.shape[3])
    bins = _bins(rois, grad_output, size, spatial_scale, sampling_ratio, aligned)
    add_pooled_gradient(grad_output, grad_input, bins)


def _bins(
    rois: Tensor,
    output: Tensor,
    size: tuple[int, int],
    spatial_scale: float,
    sampling_ratio: int,
    aligned: bool,
) -> Iterator[Bins]:
    rois = to_accumulation_dtype(rois)
    bins = (output.shape[2], output.shape[3])
    points = (rois[:, 1:] * spatial_scale).unflatten(1, (2, 4, 2))
    upper, lower = points[:, 0], points[:, 1].flip(1)
    # The larger of the distances between the ends of the upper and of the lower curve.
    width, height = torch.maximum(
        (upper[:, 0] - upper[:, 3]).abs(), (lower[:, 0] - lower[:, 3]).abs()
    ).unbind(1)
    if not aligned:
        width, height = width.clamp(min=1), height.clamp(min=1)
    centres = _centres(upper, lower, bins) - (0.5 if aligned else 0.0)
    zero = rois.new_zeros(1)
    sizes = grid_sizes(height, width, bins, sampling_ratio)
    for chosen, rows, columns in same_grids(sizes, 4 * bins[0] * bins[1]):
        # A grid around 0, the same in every bin of a RoI.
        bin_height, bin_width = height[chosen] / bins[0], width[chosen] / bins[1]
        y = grid_positions(zero, bin_height, 1, rows) - bin_height[:, None, None] / 2
        x = grid_positions(zero, bin_width, 1, columns) - bin_width[:, None, None] / 2
        centre_x, centre_y = (value[..., None, None] for value in centres[chosen].unbind(-1))
        corners = border_corners(centre_y + y[:, :, None, :, None], centre_x + x[:, :, None, None, :], *size)
        yield bins_of_samples(chosen, rois[chosen, 0].int(), size, corners)


def _centres(upper: Tensor, lower: Tensor, bins: tuple[int, int]) -> Tensor:
    """Centres of the bins, (rois, bins, bins, 2), x and y, for curves of four control points (rois, 4, 2)."""
    rows, columns = (torch.arange(count, device=upper.device, dtype=upper.dtype) / count for count in bins)
    upper_edge, lower_edge = _curve(upper, columns)[:, None], _curve(lower, columns)[:, None]
    way = rows[:, None, None]
    return lower_edge * way + upper_edge * (1 - way)


def _curve(points: Tensor, parameter: Tensor) -> Tensor:
    """Cubic Bezier curves of control points (rois, 4, 2) at parameters (n,): (rois, n, 2)."""
    rest = 1 - parameter
    basis = torch.stack([rest**3, 3 * parameter * rest**2, 3 * parameter**2 * rest, parameter**3], 1)
    return basis @ points
