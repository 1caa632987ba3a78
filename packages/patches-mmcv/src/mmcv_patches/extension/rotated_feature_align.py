"""Feature refinement: every pixel gathers the features at the centre and the corners of its own rotated box.

Yang et al., "R3Det", AAAI 2021: the output at a pixel is the feature there plus the features, sampled
bilinearly, at the centre of the pixel's box and, with five points, at its four corners
(``csrc/pytorch/cpu/rotated_feature_align.cpp``, mmcv 2.1.0).
"""

from __future__ import annotations

from typing import Iterator

import torch
from torch import Tensor

from .bilinear import border_corners
from .chunking import row_ranges
from .pixel_rows import PixelRows, add_to_pixels
from .precision import to_accumulation_dtype
from .roi_sampling import SAMPLED_PIXELS
from .weighted_rows import weighted_row_sum

__all__ = ["rotated_feature_align_backward", "rotated_feature_align_forward"]


def rotated_feature_align_forward(
    features: Tensor, best_bboxes: Tensor, output: Tensor, spatial_scale: float, points: int
) -> None:
    """Write the refined ``features`` (batch, channels, height, width) to ``output``, of the same shape.

    ``best_bboxes`` is (batch, height, width, 5): centre y and x, width, height, in pixels of the map once
    multiplied by ``spatial_scale``, and the angle in radians. ``points`` is 1 or 5.
    """
    pixels = PixelRows(features)
    by_pixel = output.permute(0, 2, 3, 1)
    for image, rows, index, weight in _bags(best_bboxes, spatial_scale, points):
        table, place = pixels.table(index)
        sums = weighted_row_sum(table, place, weight).view(-1, features.shape[3], features.shape[1])
        own = to_accumulation_dtype(features[image, :, rows].permute(1, 2, 0))
        by_pixel[image, rows] = (own + sums).to(output.dtype)


def rotated_feature_align_backward(
    top_grad: Tensor, best_bboxes: Tensor, bottom_grad: Tensor, spatial_scale: float, points: int
) -> None:
    """Add the gradient of :func:`rotated_feature_align_forward` for its features to ``bottom_grad``."""
    bottom_grad += top_grad
    for image, rows, index, weight in _bags(best_bboxes, spatial_scale, points):
        grad = to_accumulation_dtype(top_grad[image, :, rows]).flatten(1).t().contiguous()
        bag = torch.arange(len(index), dtype=torch.int32, device=index.device)
        add_to_pixels(
            bottom_grad, grad, index.view(-1), weight.view(-1), bag.repeat_interleave(index.shape[1])
        )


def _bags(boxes: Tensor, spatial_scale: float, points: int) -> Iterator[tuple[int, slice, Tensor, Tensor]]:
    """For some rows of an image: the image, the rows, pixel numbers and weights, (pixels, 4 * points)."""
    height, width = boxes.shape[1:3]
    for image in range(len(boxes)):
        for start, stop in row_ranges(height, width * points * 4, SAMPLED_PIXELS):
            y, x = _sample_points(to_accumulation_dtype(boxes[image, start:stop]), spatial_scale, points)
            corners = border_corners(y, x, height, width)
            index = corners.index + image * height * width
            yield image, slice(start, stop), index.view(-1, 4 * points), corners.weight.view(-1, 4 * points)


def _sample_points(boxes: Tensor, spatial_scale: float, points: int) -> tuple[Tensor, Tensor]:
    """y and x of the points of each box, (..., points)."""
    y, x, width, height = (boxes[..., :4] * spatial_scale)[..., None].unbind(-2)
    if points == 1:
        return y, x
    cosine, sine = boxes[..., 4:].cos(), boxes[..., 4:].sin()
    along = boxes.new_tensor([0, 0.5, -0.5, -0.5, 0.5]) * width
    across = boxes.new_tensor([0, 0.5, 0.5, -0.5, -0.5]) * height
    return y + sine * along + cosine * across, x + cosine * along - sine * across
