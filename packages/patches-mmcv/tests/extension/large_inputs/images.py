"""Large images and feature maps."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .sizes import Size

NONE = torch.zeros(0)
#: A convolution with a kernel of 3 x 3, two channels in and two out.
KERNEL, STRIDE, PADDING, DILATION = (3, 3), (1, 1), (1, 1), (1, 1)
CONVOLUTION = (*KERNEL, *STRIDE, *PADDING, *DILATION)
#: A correlation over a patch of 3 x 3.
CORRELATION = (1, 1, 3, 3, 0, 0, 1, 1, 1, 1, 1, 1)


def weight() -> Tensor:
    return torch.randn(2, 2, 3, 3)


def half(size: Size) -> Size:
    return size._replace(side=size.side // 2)


def attention(size: Size) -> tuple[Tensor, ...]:
    """Values of one level, one head and four channels, and four points of each query."""
    levels = torch.tensor([[size.side, size.side]])
    value, starts = torch.randn(1, size.side**2, 1, 4), torch.zeros(1, dtype=torch.long)
    return value, levels, starts, torch.rand(1, size.count, 1, 1, 4, 2), torch.rand(1, size.count, 1, 1, 4)


def attention_gradients(size: Size) -> tuple[Any, ...]:
    value, levels, starts, locations, weights = attention(size)
    gradients = map(torch.zeros_like, (value, locations, weights))
    return value, levels, starts, locations, weights, torch.randn(1, size.count, 4), *gradients, 64


def carafe(size: Size) -> tuple[Tensor, Tensor, Tensor]:
    """Features, masks and the enlarged features, of the given size."""
    return half(size).image(2), size.image(9).sigmoid(), size.image(2)


def carafe_gradients(size: Size, *lent: Tensor) -> tuple[Any, ...]:
    features, masks, enlarged = carafe(size)
    return enlarged, features, masks, *lent, torch.zeros_like(features), torch.zeros_like(masks), 3, 1, 2


def carafe_gradients_with_scratch(size: Size) -> tuple[Any, ...]:
    enlarged, features, *rest = carafe_gradients(size, *[NONE] * 4)
    return enlarged, features.permute(0, 2, 3, 1).contiguous(), *rest


def focal(size: Size) -> tuple[Tensor, Tensor, Tensor]:
    """Logits of 80 classes, as many as there are pixels, labels, and no weight."""
    rows = size.side**2 // 80
    return torch.randn(rows, 80), torch.randint(0, 80, (rows,)), NONE


def deformable(size: Size) -> dict[str, Tensor]:
    """Input, offset, mask and the gradient of the output."""
    return {"x": size.image(2), "offset": size.image(18), "mask": size.image(9), "grad": size.image(2)}


def modulated_gradients(size: Size) -> tuple[Any, ...]:
    x, offset, mask, grad = deformable(size).values()
    inputs = (x, weight(), torch.randn(2))
    results = map(torch.zeros_like, (*inputs, offset, mask))
    return *inputs, NONE, offset, mask, NONE, *results, grad, *CONVOLUTION, 1, 1, True


def chosen_pixels(size: Size) -> tuple[Tensor, Tensor]:
    return (torch.rand(size.side, size.side) < 0.3).nonzero(as_tuple=True)


def gathered(size: Size) -> tuple[Any, ...]:
    rows, columns = chosen_pixels(size)
    return size.image(2), rows, columns, torch.zeros(18, len(rows)), 3, 3, 1, 1


def scattered(size: Size) -> tuple[Any, ...]:
    rows, columns = chosen_pixels(size)
    return torch.randn(2, len(rows)), rows, columns, size.image(2), size.side, size.side, 2


def pairs_of_pixels(size: Size) -> tuple[Any, ...]:
    """As many pairs of pixels as there are pixels, each in the mask of the other."""
    side = int(size.side**0.5)
    masks, pairs = torch.randn(1, (2 * side - 1) ** 2, side, side), torch.zeros(1, side**2, side, side)
    return masks, pairs, 0, 1, side, side, 2 * side - 1, 2 * side - 1, side - 1, side - 1


def kernels(size: Size) -> Tensor:
    """A labelled pixel in every square of 32 x 32, int32."""
    labels, number = torch.zeros(size.side, size.side, dtype=torch.int32), -(-size.side // 32)
    labels[::32, ::32] = torch.arange(1, number**2 + 1).view(number, number).int()
    return labels


def expansion(size: Size) -> tuple[Any, ...]:
    labels = kernels(size)
    return (torch.rand(3, size.side, size.side) < 0.95).to(torch.uint8), labels, 0, int(labels.max())


def groups(size: Size) -> tuple[Any, ...]:
    labels, score = kernels(size), torch.rand(size.side, size.side)
    embedding = torch.rand(size.side, size.side, 4)
    return score, score < 0.95, embedding, labels, (labels > 0).to(torch.uint8), int(labels.max()) + 1, 5.0


def filters() -> tuple[Tensor, Tensor, Tensor]:
    """Filters of 8 orientations, where their entries go, and all their rotations."""
    order = torch.stack([torch.randperm(72) + 1 for _ in range(8)], 1).view(8, 3, 3, 8).int()
    return torch.randn(128, 128, 8, 3, 3), order, torch.zeros(1024, 1024, 3, 3)


def normalized(size: Size) -> tuple[Tensor, ...]:
    """Pixels of four channels, two tensors like them, and statistics."""
    pixels = size.image(4).flatten(2)
    return pixels, torch.zeros_like(pixels), torch.zeros_like(pixels), torch.rand(4)


def normalization(size: Size) -> tuple[Any, ...]:
    pixels, norm, output, mean = normalized(size)
    statistics = [mean, *(torch.rand(4) for _ in range(5))]
    return pixels, *statistics, norm, torch.rand(4), output, 1e-5, 0.1, 1


def normalization_gradient(size: Size) -> tuple[Any, ...]:
    grad, norm, grad_input, vector = normalized(size)
    return grad, vector, vector.clone(), vector.clone(), norm, vector.clone(), grad_input


def frames(size: Size) -> tuple[Any, ...]:
    clip = torch.randn(1, 8, 4, size.side**2 // 8)
    return clip, torch.tensor([[1, 0, -1, 2]], dtype=torch.int32), torch.zeros_like(clip)


def rectangles(size: Size) -> Tensor:
    """A rotated box at every pixel, (1, side, side, 5): y, x, width, height, angle."""
    place = torch.rand(1, size.side, size.side, 2) * size.side
    return torch.cat(
        [place, torch.rand(1, size.side, size.side, 2) * 20, torch.randn(1, size.side, size.side, 1)], 3
    )


def corner_gradient(size: Size) -> tuple[Any, ...]:
    return size.image(4), size.image(4)


TAPS = torch.rand(4)

IMAGES = {
    "active_rotated_filter_backward": lambda size: filters()[::-1],
    "active_rotated_filter_forward": lambda size: filters(),
    "bias_act": lambda size: (size.image(4), torch.rand(4), NONE, NONE, NONE, 0, 1, 9, 0.0, 1.0, -1.0),
    **{f"{side}_pool_backward": corner_gradient for side in ("bottom", "left", "right", "top")},
    **{f"{side}_pool_forward": lambda size: (size.image(4),) for side in ("bottom", "left", "right", "top")},
    "carafe_backward": carafe_gradients_with_scratch,
    "carafe_forward": lambda size: (
        *carafe(size)[:2], NONE.clone(), NONE.clone(), NONE.clone(), carafe(size)[2], 3, 1, 2,
    ),
    "carafe_naive_backward": carafe_gradients,
    "carafe_naive_forward": lambda size: (*carafe(size), 3, 1, 2),
    "contour_expand": expansion,
    "correlation_backward": lambda size: (
        size.image(9).view(1, 3, 3, size.side, size.side), *(size.image(2) for _ in range(4)), *CORRELATION,
    ),
    "correlation_forward": lambda size: (
        size.image(2), size.image(2), size.image(9).view(1, 3, 3, size.side, size.side), *CORRELATION,
    ),
    "deform_conv_backward_input": lambda size: (
        size.image(2), size.image(18), size.image(2), size.image(2), size.image(18), weight(), NONE.clone(),
        *CONVOLUTION, 1, 1, 1,
    ),
    "deform_conv_backward_parameters": lambda size: (
        size.image(2), size.image(18), size.image(2), weight(), NONE.clone(), NONE.clone(), *CONVOLUTION, 1, 1, 1.0, 1,
    ),
    "deform_conv_forward": lambda size: (
        size.image(2), weight(), size.image(18), size.image(2), NONE.clone(), NONE.clone(), *CONVOLUTION, 1, 1, 1,
    ),
    "filtered_lrelu": lambda size: (
        size.image(2), TAPS, TAPS, torch.rand(2), NONE, 2, 2, 3, 3, 3, 3, 0, 0, 1.4, 0.2, 0.5, False, True,
    ),
    "filtered_lrelu_act_": lambda size: (size.image(4), NONE, 0, 0, 1.4, 0.2, 0.5, True),
    "fused_bias_leakyrelu": lambda size: (size.image(4), torch.rand(4), NONE, 3, 0, 0.2, 1.4),
    "masked_col2im_forward": scattered,
    "masked_im2col_forward": gathered,
    "modulated_deform_conv_backward": modulated_gradients,
    "modulated_deform_conv_forward": lambda size: (
        size.image(2), weight(), torch.randn(2), NONE, size.image(18), size.image(9), size.image(2), NONE,
        *CONVOLUTION, 1, 1, True,
    ),
    "ms_deform_attn_backward": attention_gradients,
    "ms_deform_attn_forward": lambda size: (*attention(size), 64),
    "pixel_group": groups,
    "psamask_backward": lambda size: (*pairs_of_pixels(size)[1::-1], *pairs_of_pixels(size)[2:]),
    "psamask_forward": pairs_of_pixels,
    "rotated_feature_align_backward": lambda size: (size.image(1), rectangles(size), size.image(1), 1.0, 5),
    "rotated_feature_align_forward": lambda size: (size.image(1), rectangles(size), size.image(1), 1.0, 5),
    "sigmoid_focal_loss_backward": lambda size: (*focal(size), focal(size)[0], 2.0, 0.25),
    "sigmoid_focal_loss_forward": lambda size: (*focal(size), focal(size)[0], 2.0, 0.25),
    "softmax_focal_loss_backward": lambda size: (
        focal(size)[0].softmax(1), *focal(size)[1:], focal(size)[0][:, 0].clone(), focal(size)[0], 2.0, 0.25,
    ),
    "softmax_focal_loss_forward": lambda size: (
        focal(size)[0].softmax(1), *focal(size)[1:], focal(size)[0][:, 0].clone(), 2.0, 0.25,
    ),
    "sync_bn_backward_data": normalization_gradient,
    "sync_bn_backward_param": lambda size: (*normalized(size)[:2], torch.rand(4), torch.rand(4)),
    "sync_bn_forward_mean": lambda size: (size.image(4).flatten(2), torch.rand(4)),
    "sync_bn_forward_output": normalization,
    "sync_bn_forward_var": lambda size: (size.image(4).flatten(2), torch.rand(4), torch.rand(4)),
    "tin_shift_backward": frames,
    "tin_shift_forward": frames,
    "upfirdn2d": lambda size: (size.image(4), TAPS[None] * TAPS[:, None], 2, 2, 1, 1, 2, 1, 2, 1, False, 4.0),
}  # fmt: skip
