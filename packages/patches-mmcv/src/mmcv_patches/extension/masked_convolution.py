"""The gather and scatter around a convolution that is evaluated at chosen pixels only.

mmcv 2.1.0, ``masked_conv2d_cuda_kernel.cuh``. The pixels are given by ``mask_h_idx`` and ``mask_w_idx``,
int64 of shape (M,). The batch size is 1.
"""

from __future__ import annotations

from torch import Tensor

__all__ = ["masked_col2im_forward", "masked_im2col_forward"]


def masked_im2col_forward(
    im: Tensor,
    mask_h_idx: Tensor,
    mask_w_idx: Tensor,
    col: Tensor,
    kernel_h: int,
    kernel_w: int,
    pad_h: int,
    pad_w: int,
) -> None:
    """Write the neighbourhood of every chosen pixel of ``im`` (1, C, H, W) into ``col`` (C kernel_h
    kernel_w, M).

    The neighbourhood starts at (row - pad_h, column - pad_w); what lies outside the image is 0.
    """
    _, channels, height, width = im.shape
    columns = col.view(channels, kernel_h * kernel_w, -1)
    for tap in range(kernel_h * kernel_w):
        y = mask_h_idx - pad_h + tap // kernel_w
        x = mask_w_idx - pad_w + tap % kernel_w
        inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
        values = im[0][:, y.clamp(0, height - 1), x.clamp(0, width - 1)]
        columns[:, tap] = values.masked_fill_(~inside, 0)


def masked_col2im_forward(
    col: Tensor, mask_h_idx: Tensor, mask_w_idx: Tensor, im: Tensor, height: int, width: int, channels: int
) -> None:
    """Write column m of ``col`` (channels, M) to its pixel of ``im`` (1, channels, height, width)."""
    im.view(channels, height, width)[:, mask_h_idx, mask_w_idx] = col.view(channels, -1)
