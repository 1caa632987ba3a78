"""RoI align for rotated boxes, plain and for features that turn with the box.

The grid of samples of ``roi_align`` is laid around the centre of the box and turned by its angle: a point
(y, x) of the upright box goes to ``(y cos t - x sin t, y sin t + x cos t)``
(``csrc/pytorch/cpu/roi_align_rotated.cpp``, mmcv 2.1.0).

Rotation-invariant RoI align: Han et al., "ReDet", CVPR 2021. Channels come in groups of N orientations;
with the angle ``t = (i + l) * 2 pi / N``, i whole and 0 <= l < 1, orientation o of the output mixes
orientations o - i and o - i + 1 of the map, as ``(1 - l)`` and ``l``
(``riroi_align_rotated_cuda_kernel.cuh``, mmcv 2.1.0).
"""

from __future__ import annotations

import math
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

__all__ = [
    "riroi_align_rotated_backward",
    "riroi_align_rotated_forward",
    "roi_align_rotated_backward",
    "roi_align_rotated_forward",
]


def roi_align_rotated_forward(
    input: Tensor,
    rois: Tensor,
    output: Tensor,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
    sampling_ratio: int,
    aligned: bool,
    clockwise: bool,
) -> None:
    """Pool ``input`` (batch, channels, height, width) into ``output`` (rois, channels, bins, bins).

    ``rois`` is (rois, 6): image, centre x and y, width, height, in pixels of the map once multiplied by
    ``spatial_scale``, and the angle in radians. ``aligned`` moves them by half a pixel; otherwise a RoI is
    one pixel large at least. ``sampling_ratio`` is the number of samples along each axis of a bin, 0 for as
    many as it has pixels.
    """
    size = (input.shape[2], input.shape[3])
    output.zero_()
    pool(input, output, _bins(rois, output, size, spatial_scale, sampling_ratio, aligned, clockwise))


def roi_align_rotated_backward(
    rois: Tensor,
    grad_input: Tensor,
    grad_output: Tensor,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
    sampling_ratio: int,
    aligned: bool,
    clockwise: bool,
) -> None:
    """Add the gradient of :func:`roi_align_rotated_forward` for its input to the third argument.

    The compiled function takes, in this order, the gradient of the output, the RoIs and the gradient of the
    input, and that is how ``mmcv.ops`` calls it; the names given to these three in
    ``csrc/pytorch/pybind.cpp`` are shifted by one.
    """
    output_gradient, boxes, input_gradient = rois, grad_input, grad_output
    size = (input_gradient.shape[2], input_gradient.shape[3])
    bins = _bins(boxes, output_gradient, size, spatial_scale, sampling_ratio, aligned, clockwise)
    add_pooled_gradient(output_gradient, input_gradient, bins)


def riroi_align_rotated_forward(
    features: Tensor,
    rois: Tensor,
    output: Tensor,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
    num_samples: int,
    num_orientations: int,
    clockwise: bool,
) -> None:
    """Pool ``features`` into ``output`` (rois, channels * orientations, bins, bins).

    ``features`` is (batch, channels * orientations, height, width). ``rois`` is as in
    :func:`roi_align_rotated_forward`; a RoI is one pixel large at least. ``num_samples`` is the sampling
    ratio.
    """
    size = (features.shape[2], features.shape[3])
    pooled = torch.zeros_like(output, dtype=to_accumulation_dtype(output).dtype)
    pool(features, pooled, _bins(rois, output, size, spatial_scale, num_samples, False, clockwise))
    lower, upper, part = _orientations(rois, num_orientations)
    pooled = pooled.unflatten(1, (-1, num_orientations))
    mixed = (1 - part) * _turn(pooled, lower) + part * _turn(pooled, upper)
    output.copy_(mixed.flatten(1, 2))


def riroi_align_rotated_backward(
    top_grad: Tensor,
    rois: Tensor,
    bottom_grad: Tensor,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
    num_samples: int,
    num_orientations: int,
    clockwise: bool,
) -> None:
    """Add the gradient of :func:`riroi_align_rotated_forward` for its features to ``bottom_grad``."""
    size = (bottom_grad.shape[2], bottom_grad.shape[3])
    lower, upper, part = _orientations(rois, num_orientations)
    mixed = to_accumulation_dtype(top_grad).unflatten(1, (-1, num_orientations))
    # What orientation o took from o - i goes back by turning the other way.
    grad = _turn((1 - part) * mixed, -lower) + _turn(part * mixed, -upper)
    bins = _bins(rois, top_grad, size, spatial_scale, num_samples, False, clockwise)
    add_pooled_gradient(grad.flatten(1, 2), bottom_grad, bins)


def _bins(
    rois: Tensor,
    output: Tensor,
    size: tuple[int, int],
    spatial_scale: float,
    sampling_ratio: int,
    aligned: bool,
    clockwise: bool,
) -> Iterator[Bins]:
    rois = to_accumulation_dtype(rois)
    bins = (output.shape[2], output.shape[3])
    centre_x, centre_y, width, height = (rois[:, 1:5] * spatial_scale).unbind(1)
    if aligned:
        centre_x, centre_y = centre_x - 0.5, centre_y - 0.5
    else:
        width, height = width.clamp(min=1), height.clamp(min=1)
    angle = -rois[:, 5] if clockwise else rois[:, 5]
    cosine, sine = angle.cos(), angle.sin()
    sizes = grid_sizes(height, width, bins, sampling_ratio)
    for chosen, rows, columns in same_grids(sizes, 4 * bins[0] * bins[1]):
        y = grid_positions(-height[chosen] / 2, height[chosen] / bins[0], bins[0], rows)
        x = grid_positions(-width[chosen] / 2, width[chosen] / bins[1], bins[1], columns)
        y, x = y[:, :, None, :, None], x[:, None, :, None, :]
        c, s, shift_y, shift_x = (
            value[chosen].view(-1, 1, 1, 1, 1) for value in (cosine, sine, centre_y, centre_x)
        )
        corners = border_corners(y * c - x * s + shift_y, y * s + x * c + shift_x, *size)
        yield bins_of_samples(chosen, rois[chosen, 0].int(), size, corners)


def _orientations(rois: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """By how many orientations a RoI turns, below and above, int64 (rois,), and the part of the one above."""
    turns = to_accumulation_dtype(rois)[:, 5] * count / (2 * math.pi)
    whole = turns.floor()
    return whole.long(), whole.long() - 1, (turns - whole).view(-1, 1, 1, 1, 1)


def _turn(values: Tensor, by: Tensor) -> Tensor:
    """``out[n, :, o] = values[n, :, o - by[n]]``, orientations counted around."""
    count = values.shape[2]
    orientation = torch.arange(count, device=values.device) - by[:, None]
    index = torch.remainder(orientation, count).view(-1, 1, count, 1, 1)
    return values.gather(2, index.expand(values.shape))
