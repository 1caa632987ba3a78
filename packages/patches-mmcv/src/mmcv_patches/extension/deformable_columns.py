"""What both deformable convolutions share: a convolution over a feature map sampled at shifted points.

Dai et al., "Deformable Convolutional Networks", ICCV 2017, and Zhu et al., "Deformable ConvNets v2", CVPR
2019:

    out[o, p] = sum_{c, k} weight[o, c, k] * mask[g(c), k, p] * x[c](position[g(c), k, p])
    position[g, k, p] = p * stride - padding + k * dilation + offset[g, k, p]

for output pixel p, kernel tap k and the deformable group g(c) of channel c; ``x[c](.)`` is bilinear, zero
outside. The first version has no mask. The samples of some output pixels form a matrix of *columns*, one a
pixel, on which the convolution is a matrix product.

Shapes: ``x`` (batch, channels, height, width); ``weight`` (outputs, channels / groups, kernel height,
kernel width); ``offset`` (batch, deformable groups * taps * 2, output height, output width), y and x of a
tap in turn; ``mask`` (batch, deformable groups * taps, output height, output width) or None; the output
(batch, outputs, output height, output width).
"""

from __future__ import annotations

from typing import Iterator, NamedTuple

import torch
from torch import Tensor

from .bilinear import Corners, zero_padded_corners
from .chunking import row_ranges
from .precision import to_accumulation_dtype
from .weighted_rows import (
    add_weighted_row_sum_transposed,
    weighted_row_sum,
    weighted_row_sum_weight_gradient,
)

__all__ = ["Geometry", "add_weight_gradient", "convolve", "input_gradients"]

#: Elements of the columns that one chunk of output pixels may have.
COLUMN_ELEMENTS = 1 << 21
#: Pixels, weights and positions of the four corners of a sample: more than its channels, where these are few.
_NUMBERS_PER_SAMPLE = 16


class Geometry(NamedTuple):
    """How the kernel moves over the map: (vertical, horizontal) each."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    groups: int
    deformable_groups: int

    @property
    def taps(self) -> int:
        """Number of kernel elements."""
        return self.kernel[0] * self.kernel[1]

    def output_size(self, x: Tensor) -> tuple[int, int]:
        """Output height and width for the map ``x``."""
        rows, columns = (
            (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
            for size, kernel, stride, padding, dilation in zip(
                x.shape[2:], self.kernel, self.stride, self.padding, self.dilation
            )
        )
        return rows, columns


def convolve(
    geometry: Geometry, x: Tensor, weight: Tensor, offset: Tensor, mask: Tensor | None, output: Tensor
) -> None:
    """Write the convolution to ``output``. Raises RuntimeError on shapes that do not fit one another."""
    _check(geometry, x, weight, offset, output)
    matrix = _weight_to_matrix(geometry, to_accumulation_dtype(weight))
    for image in range(len(x)):
        result = matrix.new_empty(len(weight), output.shape[2] * output.shape[3])
        for samples in _sample(geometry, image, x, offset, mask):
            product = matrix @ _to_columns(geometry, samples.values())
            result[:, samples.pixels] = product.flatten(0, 1)
        output[image] = result.view(output.shape[1:])


def input_gradients(
    geometry: Geometry,
    x: Tensor,
    weight: Tensor,
    offset: Tensor,
    mask: Tensor | None,
    grad_output: Tensor,
    grad_x: Tensor,
    grad_offset: Tensor,
    grad_mask: Tensor | None,
) -> None:
    """Add the gradient for ``x`` to ``grad_x``; overwrite ``grad_offset`` and ``grad_mask`` with theirs."""
    _check(geometry, x, weight, offset, grad_output)
    matrix = _weight_to_matrix(geometry, to_accumulation_dtype(weight)).transpose(1, 2)
    for image in range(len(x)):
        flat_grad = _split_groups(geometry, grad_output[image])
        shifts = matrix.new_empty(geometry.deformable_groups, geometry.taps, 2, flat_grad.shape[2])
        masks = torch.empty_like(shifts[:, :, 0])
        grad_rows = torch.zeros_like(_pixel_rows(geometry, x[image]))
        for samples in _sample(geometry, image, x, offset, mask):
            grad_columns = matrix @ flat_grad[..., samples.pixels]
            grad_values = _from_columns(geometry, grad_columns)
            add_weighted_row_sum_transposed(grad_rows, grad_values, samples.index, samples.weight())
            samples.write_position_and_mask_gradients(grad_values, shifts, masks)
        grad_x[image] += _pixel_rows_to_map(geometry, grad_rows, x[image]).to(grad_x.dtype)
        grad_offset[image] = shifts.view(grad_offset.shape[1:])
        if grad_mask is not None:
            grad_mask[image] = masks.view(grad_mask.shape[1:])


def add_weight_gradient(
    geometry: Geometry,
    x: Tensor,
    offset: Tensor,
    mask: Tensor | None,
    grad_output: Tensor,
    grad_weight: Tensor,
    scale: float = 1.0,
) -> None:
    """Add ``scale`` times the gradient for ``weight`` to ``grad_weight``."""
    _check(geometry, x, grad_weight, offset, grad_output)
    total = torch.zeros_like(_weight_to_matrix(geometry, to_accumulation_dtype(grad_weight)))
    for image in range(len(x)):
        flat_grad = _split_groups(geometry, grad_output[image])
        for samples in _sample(geometry, image, x, offset, mask):
            columns = _to_columns(geometry, samples.values())
            total.baddbmm_(flat_grad[..., samples.pixels], columns.transpose(1, 2))
    grad_weight += (scale * _matrix_to_weight(geometry, total, grad_weight)).to(grad_weight.dtype)


class _Samples:
    """The map sampled for some output pixels: one sample a pixel, deformable group and tap, in this order."""

    def __init__(
        self, pixels: slice, rows: Tensor, corners: Corners, index: Tensor, mask: Tensor | None
    ) -> None:
        #: Which output pixels.
        self.pixels = pixels
        #: (samples, 4) into the rows.
        self.index = index
        self._rows, self._corners, self._mask = rows, corners, mask

    def weight(self) -> Tensor:
        """The mask times the interpolation weights, (samples, 4)."""
        weight = self._corners.weight
        return (weight if self._mask is None else weight * self._mask[..., None]).view(-1, 4)

    def values(self) -> Tensor:
        """The masked samples, (samples, channels of a deformable group)."""
        return weighted_row_sum(self._rows, self.index, self.weight())

    def write_position_and_mask_gradients(self, grad_values: Tensor, shifts: Tensor, masks: Tensor) -> None:
        """Write these pixels of ``shifts`` (groups, taps, 2, all) and of ``masks`` (groups, taps, all)."""
        corners = self._corners
        grad_corner = weighted_row_sum_weight_gradient(grad_values, self._rows, self.index)
        grad_corner = grad_corner.view_as(corners.weight)
        for axis, slope in enumerate((corners.weight_y(), corners.weight_x())):
            shift = (grad_corner * slope).sum(-1)
            if self._mask is not None:
                shift *= self._mask
            shifts[:, :, axis, self.pixels] = shift.permute(1, 2, 0)
        masks[..., self.pixels] = (grad_corner * corners.weight).sum(-1).permute(1, 2, 0)


def _sample(
    geometry: Geometry, image: int, x: Tensor, offset: Tensor, mask: Tensor | None
) -> Iterator[_Samples]:
    channels, height, width = x.shape[1:]
    groups, taps = geometry.deformable_groups, geometry.taps
    columns = offset.shape[3]
    offset = offset[image].reshape(groups, taps, 2, -1)
    mask = mask if mask is None else to_accumulation_dtype(mask[image]).reshape(groups, taps, -1)
    rows = _pixel_rows(geometry, x[image])
    first_row = torch.arange(groups, dtype=torch.int32, device=x.device).view(groups, 1, 1) * (height * width)
    tap = torch.arange(taps, device=x.device)
    tap_y = torch.div(tap, geometry.kernel[1], rounding_mode="floor") * geometry.dilation[0]
    tap_x = tap % geometry.kernel[1] * geometry.dilation[1]
    numbers = max(channels, groups * _NUMBERS_PER_SAMPLE) * taps
    for start, stop in row_ranges(offset.shape[3], numbers, COLUMN_ELEMENTS):
        pixels = slice(start, stop)
        pixel = torch.arange(start, stop, device=x.device).view(-1, 1, 1)
        base_y = torch.div(pixel, columns, rounding_mode="floor") * geometry.stride[0] - geometry.padding[0]
        base_x = pixel % columns * geometry.stride[1] - geometry.padding[1]
        shift = to_accumulation_dtype(offset[..., pixels]).permute(2, 3, 0, 1)
        corners = zero_padded_corners(base_y + tap_y + shift[0], base_x + tap_x + shift[1], height, width)
        index = (corners.index + first_row).view(-1, 4)
        yield _Samples(
            pixels, rows, corners, index, mask if mask is None else mask[..., pixels].permute(2, 0, 1)
        )


def _pixel_rows(geometry: Geometry, x: Tensor) -> Tensor:
    """A map (channels, height, width) as (deformable groups * height * width, channels of one group)."""
    by_group = to_accumulation_dtype(x).reshape(geometry.deformable_groups, -1, x.shape[1] * x.shape[2])
    return by_group.transpose(1, 2).flatten(0, 1)


def _pixel_rows_to_map(geometry: Geometry, rows: Tensor, x: Tensor) -> Tensor:
    return rows.unflatten(0, (geometry.deformable_groups, -1)).transpose(1, 2).reshape(x.shape)


# A convolution with one group multiplies columns as the sampling yields them, with the taps outside the
# channels; with more groups the channels must be outermost, which takes a copy of the columns.


def _to_columns(geometry: Geometry, values: Tensor) -> Tensor:
    """Samples (samples, channels of a deformable group) as (groups, channels * taps of a group, pixels)."""
    groups, taps = geometry.deformable_groups, geometry.taps
    if geometry.groups == 1:
        return values.view(1, -1, groups * taps * values.shape[1]).transpose(1, 2)
    by_channel = values.view(-1, groups, taps, values.shape[1]).permute(1, 3, 2, 0)
    return by_channel.reshape(geometry.groups, -1, by_channel.shape[3])


def _from_columns(geometry: Geometry, columns: Tensor) -> Tensor:
    groups, taps = geometry.deformable_groups, geometry.taps
    channels = columns.shape[0] * columns.shape[1] // (groups * taps)
    if geometry.groups == 1:
        return columns[0].t().reshape(-1, channels)
    return columns.view(groups, channels, taps, -1).permute(3, 0, 2, 1).reshape(-1, channels)


def _weight_to_matrix(geometry: Geometry, weight: Tensor) -> Tensor:
    """The weight as (groups, outputs of a group, channels * taps of a group), in the order of the columns."""
    if geometry.groups > 1:
        return weight.reshape(geometry.groups, len(weight) // geometry.groups, -1)
    by_group = weight.reshape(1, len(weight), geometry.deformable_groups, -1, geometry.taps)
    return by_group.transpose(3, 4).flatten(2)


def _matrix_to_weight(geometry: Geometry, matrix: Tensor, weight: Tensor) -> Tensor:
    if geometry.groups > 1:
        return matrix.view(weight.shape)
    by_group = matrix.view(len(weight), geometry.deformable_groups, geometry.taps, -1)
    return by_group.transpose(2, 3).reshape(weight.shape)


def _split_groups(geometry: Geometry, grad: Tensor) -> Tensor:
    """The gradient of an output (outputs, height, width) as (groups, outputs of a group, pixels)."""
    return to_accumulation_dtype(grad).reshape(geometry.groups, len(grad) // geometry.groups, -1)


def _check(geometry: Geometry, x: Tensor, weight: Tensor, offset: Tensor, output: Tensor) -> None:
    rows, columns = geometry.output_size(x)
    expected = {
        "weight": (output.shape[1], x.shape[1] // geometry.groups, *geometry.kernel),
        "offset": (len(x), geometry.deformable_groups * geometry.taps * 2, rows, columns),
        "output": (len(x), output.shape[1], rows, columns),
    }
    for (name, shape), found in zip(expected.items(), (weight, offset, output)):
        if tuple(found.shape) != shape:
            raise RuntimeError(
                f"deformable convolution of an input {tuple(x.shape)} with {geometry} needs {name} of shape "
                f"{shape}, found {tuple(found.shape)}"
            )
    for kind, number in (("groups", geometry.groups), ("deformable groups", geometry.deformable_groups)):
        if x.shape[1] % number:
            raise RuntimeError(f"{x.shape[1]} input channels cannot be divided into {number} {kind}")
