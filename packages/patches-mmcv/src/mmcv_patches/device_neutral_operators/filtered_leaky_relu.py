"""The autograd function around the extension's ``filtered_lrelu``, without upstream's question for CUDA streams."""

from __future__ import annotations

from typing import Any, NamedTuple

import mmcv._ext as extension
import torch
from torch import Tensor

__all__ = ["FilteredLeakyReLU", "Settings"]


class Settings(NamedTuple):
    """The numbers of one filtered leaky relu; ``padding`` is (x before, x after, y before, y after)."""

    up: int
    down: int
    padding: tuple[int, int, int, int]
    gain: float
    slope: float
    clamp: float
    flip_filters: bool


class FilteredLeakyReLU(torch.autograd.Function):
    """Bias, upsampling, leaky relu, downsampling; differentiable any number of times by input and bias.

    The gradient of such an operation is another one: the filters change places and are flipped, and the slopes are
    read from the signs that the first one kept (two bits a value) instead of from the values.
    """

    @staticmethod
    def forward(
        ctx: Any,
        input: Tensor,
        filter_up: Tensor | None,
        filter_down: Tensor | None,
        bias: Tensor | None,
        signs: Tensor | None,
        sign_x: int,
        sign_y: int,
        settings: Settings,
    ) -> Tensor:
        """``input`` (N, C, H, W), ``bias`` (C,); ``signs`` are those to read, from column and row on."""
        up, down = settings.up, settings.down
        filter_up = _full_filter(filter_up, up, input)
        filter_down = _full_filter(filter_down, down, input)
        keeps_signs = signs is None and any(ctx.needs_input_grad)
        output, written, _ = extension.filtered_lrelu(
            input,
            filter_up,
            filter_down,
            input.new_zeros(input.shape[1]) if bias is None else bias,
            torch.empty(0, dtype=torch.uint8, device=input.device) if signs is None else signs,
            up,
            down,
            *settings.padding,
            sign_x,
            sign_y,
            settings.gain,
            settings.slope,
            settings.clamp,
            settings.flip_filters,
            keeps_signs,
        )
        ctx.save_for_backward(filter_up, filter_down, written if signs is None else signs)
        ctx.sizes = (input.shape[2:], output.shape[2:])
        ctx.sign_offset = (sign_x, sign_y)
        ctx.settings = settings
        return output

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of input and bias; a filter that asks for one is an AssertionError, as upstream's."""
        assert not ctx.needs_input_grad[1] and not ctx.needs_input_grad[2], "filters have no gradient"
        filter_up, filter_down, signs = ctx.saved_tensors
        settings = ctx.settings
        up, down, (pad_x, _, pad_y, _) = settings.up, settings.down, settings.padding
        (height, width), (out_height, out_width) = ctx.sizes
        taps_x, taps_y = filter_up.shape[-1] - 1, filter_up.shape[0] - 1
        sign_x, sign_y = ctx.sign_offset
        adjoint = Settings(
            up=down,
            down=up,
            padding=(
                taps_x + filter_down.shape[-1] - 1 - pad_x,
                width * up - out_width * down + pad_x - (up - 1),
                taps_y + filter_down.shape[0] - 1 - pad_y,
                height * up - out_height * down + pad_y - (up - 1),
            ),
            gain=settings.gain * up**2 / down**2,
            slope=settings.slope,
            clamp=float("inf"),
            flip_filters=not settings.flip_filters,
        )
        grad_input = FilteredLeakyReLU.apply(
            grad_output,
            filter_down,
            filter_up,
            None,
            signs,
            sign_x - taps_x + pad_x,
            sign_y - taps_y + pad_y,
            adjoint,
        )
        grad_bias = grad_input.sum((0, 2, 3)) if ctx.needs_input_grad[3] else None
        return grad_input, None, None, grad_bias, None, None, None, None


def _full_filter(filter: Tensor | None, rate: int, input: Tensor) -> Tensor:
    """No filter is one tap of 1; one tap along both axes at the same rate is one tap in all."""
    if filter is None:
        return torch.ones((1, 1), dtype=torch.float32, device=input.device)
    if rate == 1 and filter.dim() == 1 and len(filter) == 1:
        return filter.square()[None]
    return filter
