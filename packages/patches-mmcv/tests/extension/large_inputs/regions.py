"""Many regions of interest on a large feature map, one of which is as large as the map."""

from __future__ import annotations

import torch
from torch import Tensor

from .sizes import Size, many

#: Channels of the map, and bins of a region along each axis.
CHANNELS, BINS = 4, 3


def image(size: Size) -> Tensor:
    return size.image(CHANNELS)


def upright(size: Size) -> Tensor:
    """Image 0, x1, y1, x2, y2, (count, 5): one region is the map, the others have 6 to 20 pixels a side."""
    corner = torch.rand(size.count, 2) * (size.side - 20)
    rois = torch.cat([torch.zeros(size.count, 1), corner, corner + 6 + torch.rand(size.count, 2) * 14], 1)
    rois[0, 1:] = torch.tensor([0, 0, size.side - 1, size.side - 1])
    return rois


def rotated(size: Size) -> Tensor:
    """Image 0, centre, width, height, angle, (count, 6)."""
    low, high = upright(size)[:, 1:].split(2, 1)
    return torch.cat(
        [torch.zeros(size.count, 1), (low + high) / 2, high - low, torch.randn(size.count, 1)], 1
    )


def curved(size: Size) -> Tensor:
    """Image 0, then the control points of the upper and the lower curve, (count, 17)."""
    low, high = upright(size)[:, 1:].split(2, 1)
    way = torch.linspace(0, 1, 4)[:, None]
    upper = torch.stack([low[:, :1] + (high - low)[:, :1] * way[:, 0], low[:, 1:].expand(-1, 4)], 2)
    lower = torch.stack([upper[..., 0], high[:, 1:].expand(-1, 4)], 2).flip(1)
    return torch.cat([torch.zeros(size.count, 1), upper.flatten(1), lower.flatten(1)], 1)


def pooled(size: Size, channels: int = CHANNELS) -> Tensor:
    return torch.randn(size.count, channels, BINS, BINS)


def offsets(size: Size) -> Tensor:
    return torch.randn(size.count, 2, BINS, BINS) / 9


def sides(size: Size) -> Tensor:
    return upright(size)[None, :, 1:].contiguous()


ALIGN, NONE = (BINS, BINS, 1.0), torch.zeros(0)

REGIONS = {
    "bezier_align_backward": lambda size: (pooled(size), curved(size), image(size), *ALIGN, 0, False),
    "bezier_align_forward": lambda size: (image(size), curved(size), pooled(size), *ALIGN, 0, False),
    "border_align_backward": lambda size: (
        torch.randn(1, 1, size.count, 4), sides(size), many(1, 1, size.count, 4, below=5), image(size), 5,
    ),
    "border_align_forward": lambda size: (
        image(size), sides(size), torch.zeros(1, 1, size.count, 4), many(1, 1, size.count, 4, below=1), 5,
    ),
    "deform_roi_pool_backward": lambda size: (
        pooled(size), image(size), upright(size), offsets(size), image(size), offsets(size), *ALIGN, 0, 0.1,
    ),
    "deform_roi_pool_forward": lambda size: (
        image(size), upright(size), offsets(size), pooled(size), *ALIGN, 0, 0.1,
    ),
    "prroi_pool_backward": lambda size: (pooled(size), upright(size), image(size), *ALIGN),
    "prroi_pool_coor_backward": lambda size: (
        pooled(size), pooled(size), image(size), upright(size), torch.zeros(size.count, 5), *ALIGN,
    ),
    "prroi_pool_forward": lambda size: (image(size), upright(size), pooled(size), *ALIGN),
    "riroi_align_rotated_backward": lambda size: (
        pooled(size), rotated(size), image(size), *ALIGN, 0, CHANNELS, True,
    ),
    "riroi_align_rotated_forward": lambda size: (
        image(size), rotated(size), pooled(size), *ALIGN, 0, CHANNELS, True,
    ),
    "roi_align_backward": lambda size: (
        pooled(size), upright(size), NONE, NONE, image(size), *ALIGN, 0, 1, True,
    ),
    "roi_align_forward": lambda size: (
        image(size), upright(size), pooled(size), pooled(size), pooled(size), *ALIGN, 0, 0, True,
    ),
    "roi_align_rotated_backward": lambda size: (
        pooled(size), rotated(size), image(size), *ALIGN, 0, True, False,
    ),
    "roi_align_rotated_forward": lambda size: (
        image(size), rotated(size), pooled(size), *ALIGN, 0, True, False,
    ),
    "roi_pool_backward": lambda size: (
        pooled(size), upright(size), many(size.count, CHANNELS, BINS, BINS, below=size.side**2), image(size), *ALIGN,
    ),
    "roi_pool_forward": lambda size: (
        image(size), upright(size), pooled(size), many(size.count, CHANNELS, BINS, BINS, below=1), *ALIGN,
    ),
}  # fmt: skip
