"""Point-wise spatial attention: from attention over a neighbourhood to attention over the image.

Zhao et al., "PSANet", 2018; mmcv 2.1.0, ``psamask.cpp``. Each pixel (h, w) predicts a mask of ``h_mask`` x
``w_mask`` values centred on itself: entry (i, j) speaks about the pixel
(h + i - half_h_mask, w + j - half_w_mask). The output has one row for every pair of pixels:

- ``psa_type`` 0, collect: ``output[n, other, h, w]``
- ``psa_type`` 1, distribute: ``output[n, (h, w), other]``

``input`` is (N, h_mask w_mask, H, W), ``output`` (N, H W, H, W). Pairs outside the mask are not written.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["psamask_backward", "psamask_forward"]

_COLLECT = 0


def psamask_forward(
    input: Tensor,
    output: Tensor,
    psa_type: int,
    num_: int,
    h_feature: int,
    w_feature: int,
    h_mask: int,
    w_mask: int,
    half_h_mask: int,
    half_w_mask: int,
) -> None:
    """Write the mask entries of ``input`` to their pairs of pixels in ``output``."""
    row = _axis_pairs(h_feature, h_mask, half_h_mask, input.device)
    column = _axis_pairs(w_feature, w_mask, half_w_mask, input.device)
    masks, pairs = _views(input, output, num_, h_feature, w_feature, h_mask, w_mask)
    pairs[_pair_index(psa_type, row, column)] = masks[_mask_index(row, column)]


def psamask_backward(
    grad_output: Tensor,
    grad_input: Tensor,
    psa_type: int,
    num_: int,
    h_feature: int,
    w_feature: int,
    h_mask: int,
    w_mask: int,
    half_h_mask: int,
    half_w_mask: int,
) -> None:
    """Write the gradients of the pairs of pixels to their mask entries in ``grad_input``."""
    row = _axis_pairs(h_feature, h_mask, half_h_mask, grad_output.device)
    column = _axis_pairs(w_feature, w_mask, half_w_mask, grad_output.device)
    masks, pairs = _views(grad_input, grad_output, num_, h_feature, w_feature, h_mask, w_mask)
    masks[_mask_index(row, column)] = pairs[_pair_index(psa_type, row, column)]


def _axis_pairs(size: int, mask_size: int, half_mask: int, device: torch.device) -> tuple[Tensor, ...]:
    """For one axis, all (pixel, mask entry, other pixel) whose other pixel is in the image: three (P,)."""
    pixel = torch.arange(size, device=device)[:, None].expand(size, mask_size)
    entry = torch.arange(mask_size, device=device).expand(size, mask_size)
    other = pixel + entry - half_mask
    inside = (other >= 0) & (other < size)
    return pixel[inside], entry[inside], other[inside]


def _views(
    masks: Tensor, pairs: Tensor, batch: int, height: int, width: int, mask_height: int, mask_width: int
) -> tuple[Tensor, Tensor]:
    return (
        masks.view(batch, mask_height, mask_width, height, width),
        pairs.view(batch, height, width, height, width),
    )


def _mask_index(row: tuple[Tensor, ...], column: tuple[Tensor, ...]) -> tuple:
    (h, i, _), (w, j, _) = row, column
    return slice(None), i[:, None], j, h[:, None], w


def _pair_index(psa_type: int, row: tuple[Tensor, ...], column: tuple[Tensor, ...]) -> tuple:
    (h, _, other_h), (w, _, other_w) = row, column
    if psa_type == _COLLECT:
        return slice(None), other_h[:, None], other_w, h[:, None], w
    return slice(None), h[:, None], w, other_h[:, None], other_w
