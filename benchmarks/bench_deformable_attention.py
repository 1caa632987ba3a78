"""Multi-scale deformable attention in plain PyTorch beside the Python fallback that mmcv itself has for a CPU."""

from __future__ import annotations

import sys
from typing import Any, Callable, Iterator

import torch
from torch import Tensor

from .paired import Figure, paired

#: Height and width of the levels, as for an image of 512 x 512 pixels.
LEVELS = ((64, 64), (32, 32), (16, 16), (8, 8))
#: Queries of a layer: every pixel of every level in an encoder, the objects looked for in a decoder.
LAYERS = {"encoder": sum(height * width for height, width in LEVELS), "decoder": 300}

Call = Callable[[], Any]


def figures() -> Iterator[Figure]:
    """An encoder layer and a decoder layer of Deformable DETR, forward alone and with the gradients."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    for layer, queries in LAYERS.items():
        for work, (ours, peer) in calls(queries).items():
            ratio = paired(ours, peer, pairs=15, batch_seconds=0.02)
            yield Figure(f"ms_deform_attn, {layer}, {work}", ratio, 1.0, "mmcv's Python fallback")


def calls(queries: int, heads: int = 8, channels: int = 32, points: int = 4) -> dict[str, tuple[Call, Call]]:
    """Ours and mmcv's, by what they do."""
    from mmcv_patches.extension import build_extension_module

    extension = build_extension_module()
    # mmcv.ops asks for the compiled module when it is imported; its fallback does not call it.
    sys.modules.setdefault("mmcv._ext", extension)
    from mmcv.ops.multi_scale_deform_attn import multi_scale_deformable_attn_pytorch as fallback

    shapes = torch.tensor(LEVELS)
    first_key = torch.cat([shapes.new_zeros(1), shapes.prod(1).cumsum(0)[:-1]])
    value = torch.randn(1, int(shapes.prod(1).sum()), heads, channels, requires_grad=True)
    locations = torch.rand(1, queries, heads, len(LEVELS), points, 2, requires_grad=True)
    weights = torch.rand(1, queries, heads, len(LEVELS), points, requires_grad=True)
    inputs, grad = (value, locations, weights), torch.randn(1, queries, heads * channels)

    def our_forward() -> Tensor:
        return extension.ms_deform_attn_forward(value, shapes, first_key, locations, weights, 64)

    def our_training() -> None:
        our_forward()
        grads = [torch.zeros_like(tensor) for tensor in inputs]
        extension.ms_deform_attn_backward(value, shapes, first_key, locations, weights, grad, *grads, 64)

    def their_forward() -> Tensor:
        with torch.no_grad():
            return fallback(value, shapes, locations, weights)

    def their_training() -> None:
        torch.autograd.grad(fallback(value, shapes, locations, weights), inputs, grad)

    return {"forward": (our_forward, their_forward), "with gradients": (our_training, their_training)}
