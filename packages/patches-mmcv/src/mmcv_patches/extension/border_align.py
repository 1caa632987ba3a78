"""Border align: the maximum of the features along each side of a box.

Qiu et al., "BorderDet", ECCV 2020. The channels come in four quarters, one a side: top, left, bottom,
right. Along a side lie ``pool_size + 1`` samples at equal distances, from the top left corner for the top
and the left side, from the bottom right one for the others (``border_align_cuda_kernel.cuh``, mmcv 2.1.0).
"""

from __future__ import annotations

import torch
from torch import Tensor

from .bilinear import border_corners
from .chunking import row_ranges
from .pixel_rows import PixelRows, flat_gradient
from .precision import to_accumulation_dtype
from .roi_sampling import SAMPLED_PIXELS
from .weighted_rows import weighted_row_sum

__all__ = ["border_align_backward", "border_align_forward"]


def border_align_forward(
    input: Tensor, boxes: Tensor, output: Tensor, argmax_idx: Tensor, pool_size: int
) -> None:
    """Pool ``input`` (batch, 4 * channels, height, width) into ``output`` (batch, channels, boxes, 4).

    ``boxes`` is (batch, boxes, 4): x1, y1, x2, y2 in pixels of the map. ``argmax_idx``, int32 and shaped
    like ``output``, receives the number of the sample along the side.
    """
    batch, channels = output.shape[:2]
    height, width = input.shape[2:]
    pixels = PixelRows(input.reshape(batch * 4, channels, height, width))
    number = torch.arange(pool_size + 1, device=boxes.device)
    for image in range(batch):
        side = (torch.arange(4, dtype=torch.int32, device=boxes.device) + image * 4) * (height * width)
        for start, stop in row_ranges(boxes.shape[1], 4 * len(number) * max(4, channels), SAMPLED_PIXELS):
            y, x = _positions(boxes[image, start:stop], number, pool_size)
            corners = border_corners(y, x, height, width)
            table, place = pixels.table((corners.index + side[:, None, None]).view(-1, 4))
            samples = weighted_row_sum(table, place, corners.weight.view(-1, 4))
            largest, chosen = samples.view(stop - start, 4, len(number), channels).max(2)
            output[image, :, start:stop] = largest.permute(2, 0, 1).to(output.dtype)
            argmax_idx[image, :, start:stop] = chosen.permute(2, 0, 1).to(argmax_idx.dtype)


def border_align_backward(
    grad_output: Tensor, boxes: Tensor, argmax_idx: Tensor, grad_input: Tensor, pool_size: int
) -> None:
    """Add the gradient of :func:`border_align_forward` for its input to ``grad_input``."""
    batch, channels = grad_output.shape[:2]
    height, width = grad_input.shape[2:]
    # Planes of the map for (box, side, channel) of image 0.
    plane = torch.arange(4 * channels, device=boxes.device).view(1, 4, channels, 1)
    with flat_gradient(grad_input) as flat:
        for image in range(batch):
            for start, stop in row_ranges(boxes.shape[1], 16 * channels, SAMPLED_PIXELS):
                chosen = argmax_idx[image, :, start:stop].permute(1, 2, 0)
                y, x = _positions(boxes[image, start:stop], chosen, pool_size)
                corners = border_corners(y, x, height, width)
                index = corners.index + (plane + image * 4 * channels) * (height * width)
                grad = to_accumulation_dtype(grad_output[image, :, start:stop]).permute(1, 2, 0)[..., None]
                flat.scatter_add_(0, index.reshape(-1), (grad * corners.weight).reshape(-1))


def _positions(boxes: Tensor, number: Tensor, pool_size: int) -> tuple[Tensor, Tensor]:
    """y and x of samples ``number`` along the sides of ``boxes`` (boxes, 4): (boxes, 4, samples)."""
    left, top, right, bottom = to_accumulation_dtype(boxes).unbind(1)
    across, down = (right - left) / pool_size, (bottom - top) / pool_size
    still = torch.zeros_like(across)
    start_x, start_y = torch.stack([left, left, right, right], 1), torch.stack([top, top, bottom, bottom], 1)
    step_x, step_y = (
        torch.stack([across, still, -across, still], 1),
        torch.stack([still, down, still, -down], 1),
    )
    return start_y[..., None] + step_y[..., None] * number, start_x[..., None] + step_x[..., None] * number
