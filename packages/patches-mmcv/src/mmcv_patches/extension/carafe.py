"""CARAFE: content-aware reassembly of features.

Wang et al., 2019, https://arxiv.org/abs/1905.02188. An image is enlarged by an integer factor ``s``; every
pixel of the result is a weighted sum over the ``k`` x ``k`` neighbourhood of the source pixel that it falls
into, with weights of its own:

    output[n, c, y, x] = sum over i, j < k of
        features[n, c, y // s + i - k // 2, x // s + j - k // 2] * masks[n, (group(c) k + i) k + j, y, x]

Pixels outside the image count as 0, and ``group(c) = c // (C / group_size)``. Shapes: ``features`` (N, C,
H, W), ``masks`` (N, group_size k k, s H, s W), ``output`` (N, C, s H, s W). Semantics of mmcv 2.1.0
(``carafe_naive_cuda_kernel.cuh``, ``carafe_cuda_kernel.cuh``).

The features are repeated ``s`` times first, so that each of the k k taps is one multiplication of two
contiguous images; one image and group is worked on at a time, and its channels in ranges that fit the
memory budget. Half precision is summed in float32.
"""

from __future__ import annotations

from typing import Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from .chunking import row_ranges
from .precision import accumulation_dtype

__all__ = ["carafe_backward", "carafe_forward", "carafe_naive_backward", "carafe_naive_forward"]


def carafe_naive_forward(
    features: Tensor, masks: Tensor, output: Tensor, kernel_size: int, group_size: int, scale_factor: int
) -> None:
    """Write the enlarged features into ``output``."""
    for image, channels, taps in _blocks(features, masks, group_size):
        repeated = _repeat(features[image, channels], kernel_size, scale_factor)
        total = repeated.new_zeros(output[image, channels].shape)
        for tap, window in _windows(kernel_size, scale_factor, total.shape):
            total.addcmul_(repeated[window], masks[image, taps.start + tap].to(total.dtype))
        output[image, channels] = total


def carafe_naive_backward(
    top_grad: Tensor,
    features: Tensor,
    masks: Tensor,
    bottom_grad: Tensor,
    mask_grad: Tensor,
    kernel_size: int,
    group_size: int,
    scale_factor: int,
) -> None:
    """Add the gradient of the features to ``bottom_grad`` and that of the masks to ``mask_grad``."""
    for image, channels, taps in _blocks(features, masks, group_size):
        repeated = _repeat(features[image, channels], kernel_size, scale_factor)
        repeated_grad = torch.zeros_like(repeated)
        grad = top_grad[image, channels].to(repeated.dtype)
        for tap, window in _windows(kernel_size, scale_factor, grad.shape):
            mask_grad[image, taps.start + tap] += (repeated[window] * grad).sum(0)
            repeated_grad[window].addcmul_(grad, masks[image, taps.start + tap].to(grad.dtype))
        bottom_grad[image, channels] += _repeat_backward(repeated_grad, kernel_size, scale_factor)


def carafe_forward(
    features: Tensor,
    masks: Tensor,
    rfeatures: Tensor,
    routput: Tensor,
    rmasks: Tensor,
    output: Tensor,
    kernel_size: int,
    group_size: int,
    scale_factor: int,
) -> None:
    """Write the enlarged features into ``output``, and the features as (N, H, W, C) into ``rfeatures``.

    ``rfeatures`` is resized to that shape; it is what :func:`carafe_backward` receives. ``routput`` and
    ``rmasks`` are scratch memory of the compiled kernel and are left alone.
    """
    channels_last = features.permute(0, 2, 3, 1)
    rfeatures.resize_(channels_last.shape).copy_(channels_last)
    carafe_naive_forward(features, masks, output, kernel_size, group_size, scale_factor)


def carafe_backward(
    top_grad: Tensor,
    rfeatures: Tensor,
    masks: Tensor,
    rtop_grad: Tensor,
    rbottom_grad_hs: Tensor,
    rbottom_grad: Tensor,
    rmask_grad: Tensor,
    bottom_grad: Tensor,
    mask_grad: Tensor,
    kernel_size: int,
    group_size: int,
    scale_factor: int,
) -> None:
    """Write the gradients of features and masks into ``bottom_grad`` and ``mask_grad``.

    ``rfeatures`` (N, H, W, C) is what :func:`carafe_forward` left. The four other tensors that begin with r
    are scratch memory of the compiled kernel and are left alone.
    """
    bottom_grad.zero_()
    mask_grad.zero_()
    features = rfeatures.permute(0, 3, 1, 2)
    carafe_naive_backward(
        top_grad, features, masks, bottom_grad, mask_grad, kernel_size, group_size, scale_factor
    )


def _blocks(features: Tensor, masks: Tensor, group_size: int) -> Iterator[tuple[int, slice, slice]]:
    """Each image, range of channels of one group, and the mask channels of that group."""
    batch, channels = features.shape[:2]
    group_channels, group_taps = channels // group_size, masks.shape[1] // group_size
    for image in range(batch):
        for group in range(group_size):
            taps = slice(group * group_taps, (group + 1) * group_taps)
            for start, stop in row_ranges(group_channels, masks.shape[2] * masks.shape[3]):
                first = group * group_channels
                yield image, slice(first + start, first + stop), taps


def _windows(kernel_size: int, scale_factor: int, shape: torch.Size) -> Iterator[tuple[int, tuple]]:
    """Each tap of the neighbourhood, and where its source pixels lie in the repeated features."""
    _, height, width = shape
    for tap in range(kernel_size * kernel_size):
        top, left = tap // kernel_size * scale_factor, tap % kernel_size * scale_factor
        yield tap, (slice(None), slice(top, top + height), slice(left, left + width))


def _repeat(features: Tensor, kernel_size: int, scale_factor: int) -> Tensor:
    """(C, H, W) with each pixel repeated, and a border of zeros as wide as half the neighbourhood."""
    features = features.to(accumulation_dtype(features))
    repeated = features.repeat_interleave(scale_factor, 1).repeat_interleave(scale_factor, 2)
    return F.pad(repeated, [kernel_size // 2 * scale_factor] * 4)


def _repeat_backward(grad: Tensor, kernel_size: int, scale_factor: int) -> Tensor:
    border = kernel_size // 2 * scale_factor
    grad = grad[:, border : grad.shape[1] - border, border : grad.shape[2] - border]
    return grad.unflatten(1, (-1, scale_factor)).unflatten(3, (-1, scale_factor)).sum((2, 4))
