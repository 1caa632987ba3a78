"""Multi-scale deformable attention.

Zhu et al., "Deformable DETR", ICLR 2021, equation 3: for query q and head h

    out[q, h] = sum_{l, p} A[q, h, l, p] * value_l[h](location[q, h, l, p])

where ``value_l[h](x, y)`` is level l, sampled bilinearly with zeros outside, at pixel
``(x * width_l - 0.5, y * height_l - 0.5)`` (``ms_deform_attn_cuda_kernel.cuh``, mmcv 2.1.0). The whole sum of
a query and head is one bag of 4 * levels * points pixels.
"""

from __future__ import annotations

from typing import Iterator, NamedTuple

import torch
from torch import Tensor

from .bilinear import Corners, zero_padded_corners
from .chunking import row_ranges
from .precision import to_accumulation_dtype
from .weighted_rows import (
    add_weighted_row_sum_transposed,
    weighted_row_sum,
    weighted_row_sum_weight_gradient,
)

__all__ = ["ms_deform_attn_backward", "ms_deform_attn_forward"]

#: Sampled pixels (four a point) that one chunk of queries may have.
SAMPLED_PIXELS = 1 << 20


def ms_deform_attn_forward(
    value: Tensor,
    value_spatial_shapes: Tensor,
    value_level_start_index: Tensor,
    sampling_locations: Tensor,
    attention_weights: Tensor,
    im2col_step: int,
) -> Tensor:
    """Attend to a few sampled points of every level.

    ``value`` is (batch, keys, heads, channels); ``value_spatial_shapes`` (levels, 2) rows of (height,
    width); ``value_level_start_index`` (levels,) first key of each level; ``sampling_locations`` (batch,
    queries, heads, levels, points, 2), x and y as fractions of the level's size; ``attention_weights``
    (batch, queries, heads, levels, points). ``im2col_step`` only splits the batch in the compiled operator
    and is not used.

    Returns (batch, queries, heads * channels) in the dtype of ``value``. Half precision is computed in
    float32.
    """
    batch, queries, heads = sampling_locations.shape[:3]
    out = value.new_empty(batch, queries, heads * value.shape[3])
    for chunk in _chunks(value, value_spatial_shapes, value_level_start_index, sampling_locations):
        attention = attention_weights[chunk.batch, chunk.queries].to(chunk.rows.dtype)
        weight = chunk.corners.weight * attention[:, :, None]
        sums = weighted_row_sum(chunk.rows, chunk.index, _bags(weight))
        out[chunk.batch, chunk.queries] = sums.view(-1, heads * value.shape[3]).to(out.dtype)
    return out


def ms_deform_attn_backward(
    value: Tensor,
    value_spatial_shapes: Tensor,
    value_level_start_index: Tensor,
    sampling_locations: Tensor,
    attention_weights: Tensor,
    grad_output: Tensor,
    grad_value: Tensor,
    grad_sampling_loc: Tensor,
    grad_attn_weight: Tensor,
    im2col_step: int,
) -> None:
    """Gradients of :func:`ms_deform_attn_forward`.

    ``grad_output`` is (batch, queries, heads * channels). ``grad_value``, ``grad_sampling_loc`` and
    ``grad_attn_weight`` have the shapes of the inputs; the first is added to, the others are overwritten.
    """
    _, keys, heads, channels = value.shape
    # Fractions of a level become pixels: the derivative of x is its width, of y its height.
    scale = value_spatial_shapes.flip(1)
    accumulated = to_accumulation_dtype(grad_value)
    for chunk in _chunks(value, value_spatial_shapes, value_level_start_index, sampling_locations):
        corners, place = chunk.corners, (chunk.batch, chunk.queries)
        attention = attention_weights[place].to(chunk.rows.dtype)
        grad = grad_output[place].reshape(-1, channels).to(chunk.rows.dtype)
        add_weighted_row_sum_transposed(
            accumulated[chunk.batch].view(keys * heads, channels),
            grad,
            chunk.index,
            _bags(corners.weight * attention[:, :, None]),
        )
        grad_corner = weighted_row_sum_weight_gradient(grad, chunk.rows, chunk.index).view_as(corners.weight)
        grad_attn_weight[place] = (grad_corner * corners.weight).sum(2).to(grad_attn_weight.dtype)
        slope = torch.stack(
            [(grad_corner * corners.weight_x()).sum(2), (grad_corner * corners.weight_y()).sum(2)], -1
        )
        grad_sampling_loc[place] = (slope * attention[..., None] * scale[:, None]).to(grad_sampling_loc.dtype)
    if accumulated is not grad_value:
        grad_value.copy_(accumulated)


class _Chunk(NamedTuple):
    """Some queries of one image: keys x heads as rows, and corners (queries, heads, 4, levels, points)."""

    batch: int
    queries: slice
    rows: Tensor
    corners: Corners
    index: Tensor


def _chunks(value: Tensor, shapes: Tensor, level_start: Tensor, locations: Tensor) -> Iterator[_Chunk]:
    batch, keys, heads, channels = value.shape
    queries, levels, points = locations.shape[1], locations.shape[3], locations.shape[4]
    height, width = shapes[:, :1].int(), shapes[:, 1:].int()
    first_key = level_start.int().view(levels, 1)
    head = torch.arange(heads, dtype=torch.int32, device=value.device).view(heads, 1, 1, 1)
    for image in range(batch):
        rows = to_accumulation_dtype(value[image]).reshape(keys * heads, channels)
        size = shapes.flip(1)[:, None].to(rows.dtype)
        for start, stop in row_ranges(queries, heads * levels * points * 4, SAMPLED_PIXELS):
            x, y = (locations[image, start:stop].to(rows.dtype) * size - 0.5).unbind(-1)
            corners = zero_padded_corners(y, x, height, width, dim=2)
            index = (corners.index + first_key) * heads + head
            yield _Chunk(image, slice(start, stop), rows, corners, _bags(index))


def _bags(corners: Tensor) -> Tensor:
    """All that one query and head sums up: (queries, heads, ...) to (queries * heads, members)."""
    return corners.flatten(0, 1).flatten(1)
