"""Correlation of two feature maps over a window of displacements, as optical flow networks use it.

Dosovitskiy et al., "FlowNet", 2015, https://arxiv.org/abs/1504.06852; mmcv 2.1.0, ``correlation_cuda.cuh``:

    output[n, p, q, y, x] = sum over the kernel (i, j) and the channels c of
        input1[n, c, y', x'] * input2[n, c, y' + dy(p), x' + dx(q)]
    y' = y dH - padH + i dilationH,  dy(p) = p dilation_patchH - dilation_patchH (patchH - 1) // 2

and likewise for x', dx. A product with a pixel outside either image is 0. Inputs are (N, C, H, W), the
output (N, patchH, patchW, oH, oW). One displacement is worked on at a time, for a range of images that fits
the memory budget; half precision is summed in float32.
"""

from __future__ import annotations

from typing import Iterator, NamedTuple

import torch
from torch import Tensor

from .chunking import row_ranges
from .precision import accumulation_dtype

__all__ = ["correlation_backward", "correlation_forward"]


def correlation_forward(
    input1: Tensor,
    input2: Tensor,
    output: Tensor,
    kH: int,
    kW: int,
    patchH: int,
    patchW: int,
    padH: int,
    padW: int,
    dilationH: int,
    dilationW: int,
    dilation_patchH: int,
    dilation_patchW: int,
    dH: int,
    dW: int,
) -> None:
    """Write the correlation into ``output``."""
    output.zero_()
    rows = _Axis(input1.shape[2], output.shape[3], kH, dH, padH, dilationH, patchH, dilation_patchH)
    columns = _Axis(input1.shape[3], output.shape[4], kW, dW, padW, dilationW, patchW, dilation_patchW)
    for images in _image_ranges(input1):
        first, second = _accumulable(input1[images]), _accumulable(input2[images])
        for p, y1, y2 in rows.displacements():
            for q, x1, x2 in columns.displacements():
                products = first.new_zeros(first.shape[0], rows.size, columns.size)
                products[:, y1, x1] = (first[:, :, y1, x1] * second[:, :, y2, x2]).sum(1)
                total = first.new_zeros(first.shape[0], rows.output_size, columns.output_size)
                for to_y, from_y in rows.taps():
                    for to_x, from_x in columns.taps():
                        total[:, to_y, to_x] += products[:, from_y, from_x]
                output[images, p, q] = total


def correlation_backward(
    grad_output: Tensor,
    input1: Tensor,
    input2: Tensor,
    grad_input1: Tensor,
    grad_input2: Tensor,
    kH: int,
    kW: int,
    patchH: int,
    patchW: int,
    padH: int,
    padW: int,
    dilationH: int,
    dilationW: int,
    dilation_patchH: int,
    dilation_patchW: int,
    dH: int,
    dW: int,
) -> None:
    """Write the gradients into ``grad_input1`` and ``grad_input2``."""
    rows = _Axis(input1.shape[2], grad_output.shape[3], kH, dH, padH, dilationH, patchH, dilation_patchH)
    columns = _Axis(input1.shape[3], grad_output.shape[4], kW, dW, padW, dilationW, patchW, dilation_patchW)
    for images in _image_ranges(input1):
        first, second = _accumulable(input1[images]), _accumulable(input2[images])
        grad_first, grad_second = torch.zeros_like(first), torch.zeros_like(second)
        for p, y1, y2 in rows.displacements():
            for q, x1, x2 in columns.displacements():
                grad = grad_output[images, p, q].to(first.dtype)
                grad_products = first.new_zeros(first.shape[0], 1, rows.size, columns.size)
                for to_y, from_y in rows.taps():
                    for to_x, from_x in columns.taps():
                        grad_products[:, 0, from_y, from_x] += grad[:, to_y, to_x]
                grad_products = grad_products[:, :, y1, x1]
                grad_first[:, :, y1, x1].addcmul_(grad_products, second[:, :, y2, x2])
                grad_second[:, :, y2, x2].addcmul_(grad_products, first[:, :, y1, x1])
        grad_input1[images] = grad_first
        grad_input2[images] = grad_second


class _Axis(NamedTuple):
    """One spatial axis: which pixels meet at each displacement, and which products each output sums."""

    size: int
    output_size: int
    kernel: int
    stride: int
    padding: int
    dilation: int
    patch: int
    patch_dilation: int

    def displacements(self) -> Iterator[tuple[int, slice, slice]]:
        """Each index of the patch, with the pixels of both inputs that meet there."""
        for index in range(self.patch):
            shift = index * self.patch_dilation - self.patch_dilation * (self.patch - 1) // 2
            start, stop = max(0, -shift), min(self.size, self.size - shift)
            if start < stop:
                yield index, slice(start, stop), slice(start + shift, stop + shift)

    def taps(self) -> Iterator[tuple[slice, slice]]:
        """For each kernel position, the outputs it contributes to and the products it takes."""
        for position in range(self.kernel):
            offset = position * self.dilation - self.padding
            start = max(0, -(offset // self.stride))
            stop = min(self.output_size, (self.size - 1 - offset) // self.stride + 1)
            if start < stop:
                first = start * self.stride + offset
                last = (stop - 1) * self.stride + offset
                yield slice(start, stop), slice(first, last + 1, self.stride)


def _image_ranges(input: Tensor) -> Iterator[slice]:
    for start, stop in row_ranges(input.shape[0], input[:1].numel()):
        yield slice(start, stop)


def _accumulable(input: Tensor) -> Tensor:
    return input.to(accumulation_dtype(input))
