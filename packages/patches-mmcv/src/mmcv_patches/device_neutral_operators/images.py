"""Replacements for functions of ``mmcv.ops`` over images. Arguments and results are upstream's."""

from __future__ import annotations

import sys
from typing import Any

import mmcv._ext as extension
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..focal_loss import check_arguments, reduced
from .filtered_leaky_relu import FilteredLeakyReLU, Settings

__all__ = [
    "bias_act",
    "carafe_backward",
    "carafe_naive_backward",
    "filtered_lrelu",
    "fused_bias_leakyrelu",
    "softmax_focal_loss_forward",
    "upfirdn2d",
]


@once_differentiable
def carafe_naive_backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
    """Gradients of ``CARAFENaiveFunction`` by features and masks."""
    features, masks = ctx.saved_tensors
    grad_features, grad_masks = torch.zeros_like(features), torch.zeros_like(masks)
    extension.carafe_naive_backward(
        grad_output.contiguous(),
        features,
        masks,
        grad_features,
        grad_masks,
        kernel_size=ctx.kernel_size,
        group_size=ctx.group_size,
        scale_factor=ctx.scale_factor,
    )
    return grad_features, grad_masks, None, None, None


@once_differentiable
def carafe_backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
    """Gradients of ``CARAFEFunction`` by features and masks."""
    features, masks, rfeatures = ctx.saved_tensors
    shapes = (grad_output, grad_output, features, masks)
    rgrad_output, rgrad_input_hs, rgrad_input, rgrad_masks = map(torch.zeros_like, shapes)
    grad_features, grad_masks = torch.zeros_like(features), torch.zeros_like(masks)
    extension.carafe_backward(
        grad_output.contiguous(),
        rfeatures,
        masks,
        rgrad_output,
        rgrad_input_hs,
        rgrad_input,
        rgrad_masks,
        grad_features,
        grad_masks,
        kernel_size=ctx.kernel_size,
        group_size=ctx.group_size,
        scale_factor=ctx.scale_factor,
    )
    return grad_features, grad_masks, None, None, None


def softmax_focal_loss_forward(
    ctx: Any,
    input: Tensor,
    target: Tensor,
    gamma: float = 2.0,
    alpha: float = 0.25,
    weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The loss of logits (N, C) for labels (N,) int64, negative ones ignored; backward stays upstream's."""
    check_arguments(input, target, weight, reduction)
    ctx.reduction_dict = {"none": 0, "mean": 1, "sum": 2}
    ctx.gamma, ctx.alpha, ctx.reduction = float(gamma), float(alpha), ctx.reduction_dict[reduction]
    weight = input.new_empty(0) if weight is None else weight
    softmax, output = input.softmax(1), input.new_zeros(input.size(0))
    extension.softmax_focal_loss_forward(softmax, target, weight, output, gamma=ctx.gamma, alpha=ctx.alpha)
    ctx.save_for_backward(softmax, target, weight)
    return reduced(output, reduction)


def bias_act(
    input: Tensor,
    bias: Tensor | None = None,
    dim: int = 1,
    act: str = "linear",
    alpha: float | None = None,
    gain: float | None = None,
    clamp: float | None = None,
    use_custom_op: bool = True,
) -> Tensor:
    """Bias, activation, gain and clamp, by the extension unless ``use_custom_op`` is False."""
    upstream = sys.modules["mmcv.ops.bias_act"]
    if use_custom_op:
        return upstream._bias_act_cuda(dim=dim, act=act, alpha=alpha, gain=gain, clamp=clamp).apply(
            input, bias
        )
    return upstream._bias_act_ref(
        input=input, bias=bias, dim=dim, act=act, alpha=alpha, gain=gain, clamp=clamp
    )


def upfirdn2d(
    input: Tensor,
    filter: Tensor,
    up: Any = 1,
    down: Any = 1,
    padding: Any = 0,
    flip_filter: bool = False,
    gain: float = 1,
    use_custom_op: bool = True,
) -> Tensor:
    """Upsampling, filter and downsampling, by the extension unless ``use_custom_op`` is False."""
    upstream = sys.modules["mmcv.ops.upfirdn2d"]
    settings = {"up": up, "down": down, "padding": padding, "flip_filter": flip_filter, "gain": gain}
    if use_custom_op:
        return upstream._upfirdn2d_cuda(**settings).apply(input, filter)
    return upstream._upfirdn2d_ref(input, filter, **settings)


def filtered_lrelu(
    input: Tensor,
    filter_up: Tensor | None = None,
    filter_down: Tensor | None = None,
    bias: Tensor | None = None,
    up: int = 1,
    down: int = 1,
    padding: Any = 0,
    gain: float = 2**0.5,
    slope: float = 0.2,
    clamp: float | None = None,
    flip_filter: bool = False,
    use_custom_op: bool = True,
) -> Tensor:
    """Leaky relu at a higher sampling rate, by the extension unless ``use_custom_op`` is False."""
    upstream = sys.modules["mmcv.ops.filtered_lrelu"]
    if not use_custom_op:
        return upstream._filtered_lrelu_ref(
            input,
            filter_up=filter_up,
            filter_down=filter_down,
            bias=bias,
            up=up,
            down=down,
            padding=padding,
            gain=gain,
            slope=slope,
            clamp=clamp,
            flip_filter=flip_filter,
        )
    assert isinstance(up, int) and up >= 1
    assert isinstance(down, int) and down >= 1
    assert gain > 0 and slope >= 0 and (clamp is None or clamp >= 0)
    settings = Settings(
        up=up,
        down=down,
        padding=tuple(upstream._parse_padding(padding)),
        gain=float(gain),
        slope=float(slope),
        clamp=float("inf") if clamp is None else float(clamp),
        flip_filters=flip_filter,
    )
    return FilteredLeakyReLU.apply(input, filter_up, filter_down, bias, None, 0, 0, settings)


def fused_bias_leakyrelu(
    input: Tensor, bias: Tensor | None, negative_slope: float = 0.2, scale: float = 2**0.5
) -> Tensor:
    """Bias, leaky relu and scale, by the extension where there is a bias."""
    upstream = sys.modules["mmcv.ops.fused_bias_leakyrelu"]
    if bias is None:
        return upstream.bias_leakyrelu_ref(input, bias, negative_slope, scale)
    return upstream.FusedBiasLeakyReLUFunction.apply(input, bias.to(input.dtype), negative_slope, scale)
