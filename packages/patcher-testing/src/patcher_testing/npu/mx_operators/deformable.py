"""Deformable convolution (Dai et al., 2017, https://arxiv.org/abs/1703.06211; v2: Zhu et al., 2018,
https://arxiv.org/abs/1811.11168) and multi-scale deformable attention (Zhu et al., 2020,
https://arxiv.org/abs/2010.04159).

The compiled functions take channels-last tensors and give channels-first ones.
"""

from __future__ import annotations

from typing import Any, Sequence

import torch
from torch.nn import functional

from ..differentiation import gradients, upcast


def _channels_first(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.permute(0, 3, 1, 2)


def _sampling_positions(
    offset: torch.Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows and columns, in pixels, at which each kernel element reads: (batch, deform groups, kernel size,
    out H, out W).
    """
    out_height, out_width = offset.shape[-2:]
    kernel_rows, kernel_columns = torch.meshgrid(
        torch.arange(kernel[0]) * dilation[0], torch.arange(kernel[1]) * dilation[1], indexing="ij"
    )
    rows = kernel_rows.reshape(-1, 1, 1) + (torch.arange(out_height) * stride[0] - padding[0]).view(1, -1, 1)
    columns = kernel_columns.reshape(-1, 1, 1) + (torch.arange(out_width) * stride[1] - padding[1]).view(
        1, 1, -1
    )
    return rows + offset[:, :, :, 0], columns + offset[:, :, :, 1]


def _sample(image: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """Bilinear samples of (N, C, H, W) at pixel positions of shape (N, ...); zero outside the image."""
    height, width = image.shape[-2:]
    grid = torch.stack(((2 * columns + 1) / width - 1, (2 * rows + 1) / height - 1), dim=-1)
    sampled = functional.grid_sample(image, grid.flatten(1, -3), align_corners=False)
    return sampled.view(*image.shape[:2], *rows.shape[1:])


def _deform_conv(
    x: torch.Tensor,
    offset: torch.Tensor,
    mask: torch.Tensor | None,
    weight: torch.Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    deform_groups: int,
) -> torch.Tensor:
    """All tensors channels-first; offset channels are (deform group, kernel element, row then column)."""
    batch, channels, height, width = x.shape
    kernel = weight.shape[-2:]
    kernel_size = kernel[0] * kernel[1]
    out_size = offset.shape[-2:]
    offset = offset.reshape(batch, deform_groups, kernel_size, 2, *out_size)
    rows, columns = _sampling_positions(offset, kernel, stride, padding, dilation)
    image = x.reshape(batch * deform_groups, channels // deform_groups, height, width)
    sampled = _sample(image, rows.flatten(0, 1), columns.flatten(0, 1))
    sampled = sampled.view(batch, deform_groups, channels // deform_groups, kernel_size, *out_size)
    if mask is not None:
        sampled = sampled * mask.reshape(batch, deform_groups, 1, kernel_size, *out_size)
    patches = sampled.reshape(batch, groups, channels // groups * kernel_size, -1)
    filters = weight.reshape(groups, weight.size(0) // groups, -1)
    return torch.einsum("gof,ngfp->ngop", filters, patches).reshape(batch, weight.size(0), *out_size)


def deformable_conv2d(
    x: torch.Tensor,
    offset: torch.Tensor,
    weight: torch.Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    deform_groups: int,
    allow_hf32: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The output, and a stand-in for the sampled patches, which only the backward function reads."""
    x_, offset_, weight_ = (upcast(_channels_first(tensor)) for tensor in (x, offset, weight))
    output = _deform_conv(x_, offset_, None, weight_, stride, padding, dilation, groups, deform_groups)
    return output.to(x.dtype), x.new_empty(0)


def deformable_conv2d_backward(
    x: torch.Tensor,
    weight: torch.Tensor,
    offset: torch.Tensor,
    sampled: torch.Tensor,
    grad_output: torch.Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    deform_groups: int,
    allow_hf32: bool,
) -> tuple[Any, ...]:
    """Gradients for x, weight and offset; `grad_output` is (batch, out H, channels, out W)."""
    grad_x, grad_offset, grad_weight = gradients(
        lambda x, o, w: _deform_conv(x, o, None, w, stride, padding, dilation, groups, deform_groups),
        [_channels_first(tensor) for tensor in (x, offset, weight)],
        grad_output.permute(0, 2, 1, 3),
    )
    return grad_x, grad_weight, grad_offset


def modulated_deformable_conv2d(
    x: torch.Tensor,
    offset: torch.Tensor,
    mask: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    deform_groups: int,
    with_bias: int,
    allow_hf32: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """As `deformable_conv2d`, each sample weighted by `mask`. A bias is ignored, as it really is."""
    x_, offset_, mask_, weight_ = (upcast(_channels_first(tensor)) for tensor in (x, offset, mask, weight))
    output = _deform_conv(x_, offset_, mask_, weight_, stride, padding, dilation, groups, deform_groups)
    return output.to(x.dtype), x.new_empty(0)


def modulated_deformable_conv2d_backward(
    x: torch.Tensor,
    offset: torch.Tensor,
    mask: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    sampled: torch.Tensor,
    grad_output: torch.Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    deform_groups: int,
    with_bias: int,
    allow_hf32: bool,
) -> tuple[Any, ...]:
    """Gradients for x, weight, bias (empty), offset (6-D: its middle four dimensions multiply to the
    channels) and mask.
    """
    grad_x, grad_offset, grad_mask, grad_weight = gradients(
        lambda x, o, m, w: _deform_conv(x, o, m, w, stride, padding, dilation, groups, deform_groups),
        [_channels_first(tensor) for tensor in (x, offset, mask, weight)],
        _channels_first(grad_output),
    )
    assert grad_offset is not None
    return grad_x, grad_weight, x.new_empty(0), grad_offset[:, :, None, None], grad_mask


def _multi_scale_attention(
    value: torch.Tensor, level_sizes: Sequence[Sequence[int]], locations: torch.Tensor, weights: torch.Tensor
) -> torch.Tensor:
    batch, _, heads, channels = value.shape
    queries = locations.size(1)
    per_level = value.split([height * width for height, width in level_sizes], dim=1)
    samples = []
    for level, (height, width) in enumerate(level_sizes):
        image = per_level[level].permute(0, 2, 3, 1).reshape(batch * heads, channels, height, width)
        grid = 2 * locations[:, :, :, level].transpose(1, 2).flatten(0, 1) - 1
        samples.append(functional.grid_sample(image, grid, align_corners=False))
    # (batch * heads, channels, queries, levels * points)
    sampled = torch.stack(samples, dim=-2).flatten(-2)
    weighted = sampled * weights.transpose(1, 2).reshape(batch * heads, 1, queries, -1)
    return weighted.sum(-1).view(batch, heads * channels, queries).transpose(1, 2).contiguous()


def multi_scale_deformable_attn(
    value: torch.Tensor,
    spatial_shapes: torch.Tensor,
    level_start_index: torch.Tensor,
    sampling_locations: torch.Tensor,
    attention_weights: torch.Tensor,
) -> torch.Tensor:
    """value (B, sum of H*W, heads, C), spatial_shapes (levels, 2) as H, W, locations (B, Q, heads, levels,
    points, 2) as x, y in [0, 1], weights (B, Q, heads, levels, points); returns (B, Q, heads * C).
    """
    sizes = spatial_shapes.tolist()
    inputs = (upcast(tensor) for tensor in (sampling_locations, attention_weights))
    return _multi_scale_attention(upcast(value), sizes, *inputs).to(value.dtype)


def multi_scale_deformable_attn_backward(
    value: torch.Tensor,
    spatial_shapes: torch.Tensor,
    level_start_index: torch.Tensor,
    sampling_locations: torch.Tensor,
    attention_weights: torch.Tensor,
    grad_output: torch.Tensor,
) -> tuple[Any, ...]:
    """Gradients for value, sampling_locations and attention_weights."""
    sizes = spatial_shapes.tolist()
    inputs = (value, sampling_locations, attention_weights)
    return tuple(gradients(lambda v, x, w: _multi_scale_attention(v, sizes, x, w), inputs, grad_output))


REFERENCES = {
    "deformable_conv2d": deformable_conv2d,
    "deformable_conv2d_backward": deformable_conv2d_backward,
    "modulated_deformable_conv2d": modulated_deformable_conv2d,
    "modulated_deformable_conv2d_backward": modulated_deformable_conv2d_backward,
    "multi_scale_deformable_attn": multi_scale_deformable_attn,
    "multi_scale_deformable_attn_backward": multi_scale_deformable_attn_backward,
}
