"""FIR filtering with a change of the sampling rate, and StyleGAN3's leaky relu between two such filters.

Karras et al., "Alias-Free Generative Adversarial Networks", 2021, https://arxiv.org/abs/2106.12423; mmcv
2.1.0, ``upfirdn2d_kernel.cu`` and ``filtered_lrelu.cu``. Half precision is computed in float32 and rounded
once.

Upsampling inserts zeros, and most products of a filter with them are 0. Outputs are therefore computed in
groups (phases): those that see the inserted zeros at the same taps. For them the filter is an ordinary,
shorter one over samples only, so that each group is one convolution. float32 convolutions on CUDA devices
have the precision that ``torch.backends.cudnn.allow_tf32`` says, as in mmcv's own reference.
"""

from __future__ import annotations

import math
from typing import Iterator, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from .chunking import row_ranges
from .precision import accumulation_dtype

__all__ = ["filtered_lrelu", "filtered_lrelu_act_", "upfirdn2d"]

#: How many tensors of the size of the upsampled image filtered_lrelu has at once.
_UPSAMPLED_IMAGES = 12


def upfirdn2d(
    input: Tensor,
    filter: Tensor,
    upx: int,
    upy: int,
    downx: int,
    downy: int,
    padx0: int,
    padx1: int,
    pady0: int,
    pady1: int,
    flip: bool,
    gain: float,
) -> Tensor:
    """Insert zeros, pad or crop, filter, and keep every n-th pixel, of every channel.

    ``input`` (N, C, H, W), ``filter`` (FH, FW). Along x, ``upx - 1`` zeros follow every pixel, ``padx0``
    and ``padx1`` zeros (negative: pixels to drop) are put before and after, and every ``downx``-th value of
    the result is kept, multiplied by ``gain``. ``flip`` False is a convolution, True a correlation.

    Returns:
        (N, C, OH, OW) with ``OW = (W upx + padx0 + padx1 - FW) // downx + 1``, in the dtype and memory
        format of ``input``.

    Raises:
        RuntimeError: the output would have no pixel, or ``input`` or ``filter`` has the wrong rank.
    """
    if input.dim() != 4 or filter.dim() != 2:
        raise RuntimeError(
            f"upfirdn2d: found an input of shape {tuple(input.shape)} and a filter of shape "
            f"{tuple(filter.shape)}, expected rank 4 and rank 2"
        )
    columns = _Resampling(upx, downx, padx0, padx1)
    rows = _Resampling(upy, downy, pady0, pady1)
    batch, channels, height, width = input.shape
    out_height = rows.output_size(height, filter.shape[0])
    out_width = columns.output_size(width, filter.shape[1])
    output = input.new_empty(batch * channels, out_height, out_width)
    planes = input.reshape(batch * channels, height, width)
    taps = filter.to(accumulation_dtype(input)) * gain
    for start, stop in row_ranges(batch * channels, out_height * out_width):
        output[start:stop] = _filter_planes(planes[start:stop].to(taps.dtype), taps, rows, columns, flip)
    return output.view(batch, channels, out_height, out_width).contiguous(
        memory_format=torch.channels_last if _is_channels_last(input) else torch.contiguous_format
    )


def filtered_lrelu(
    x: Tensor,
    fu: Tensor,
    fd: Tensor,
    b: Tensor,
    si: Tensor,
    up: int,
    down: int,
    px0: int,
    px1: int,
    py0: int,
    py1: int,
    sx: int,
    sy: int,
    gain: float,
    slope: float,
    clamp: float,
    flip_filters: bool,
    writeSigns: bool,
) -> tuple[Tensor, Tensor | None, int]:
    """Add the bias ``b`` (C,), upsample by ``up`` with ``fu``, activate, downsample by ``down`` with
    ``fd``.

    Filters are (taps,), applied along both axes, or (FH, FW). The activation is that of
    :func:`filtered_lrelu_act_`, with the same meaning of ``si``, ``sx``, ``sy`` and ``writeSigns``; the
    signs written cover only what ``fd`` sees of the upsampled image. Upsampled images exist for a range of
    channels at a time.

    Returns:
        The output (N, C, OH, OW) in the dtype of ``x``, the signs or None, and the return code 0. (The
        compiled function answers -1 where it has no kernel; this one always computes.)

    Raises:
        RuntimeError: the upsampled image would be smaller than ``fd``.
    """
    batch, channels, height, width = x.shape
    dtype = accumulation_dtype(x)
    upsampling = _Separable.of(fu, dtype, float(up**2))
    downsampling = _Separable.of(fd, dtype, 1.0)
    up_rows, up_columns = _Resampling(up, 1, py0, py1), _Resampling(up, 1, px0, px1)
    down_both = _Resampling(1, down, 0, 0)
    inner_height = up_rows.output_size(height, fu.shape[0])
    inner_width = up_columns.output_size(width, fu.shape[-1])
    out_height = down_both.output_size(inner_height, fd.shape[0])
    out_width = down_both.output_size(inner_width, fd.shape[-1])
    seen_height = (out_height - 1) * down + fd.shape[0]
    seen_width = (out_width - 1) * down + fd.shape[-1]

    planes = x.reshape(-1, height, width)
    bias = b.to(dtype).repeat(batch)[:, None, None]
    signs = si.reshape(-1, *si.shape[2:]) if si.numel() else None
    output = x.new_empty(len(planes), out_height, out_width)
    written = None
    if writeSigns:
        written = x.new_empty(len(planes), seen_height, -(-seen_width // 16) * 4, dtype=torch.uint8)
    for start, stop in row_ranges(len(planes), _UPSAMPLED_IMAGES * inner_height * inner_width):
        inner = planes[start:stop].to(dtype) + bias[start:stop]
        inner = upsampling.apply(inner, up_rows, up_columns, flip_filters)[:, :seen_height, :seen_width]
        if written is not None:
            written[start:stop] = _pack_codes(_activate_(inner, gain, slope, clamp))
        elif signs is not None:
            _activate_by_codes_(inner, _unpack_codes(signs[start:stop]), sx, sy, gain, slope)
        else:
            _activate_(inner, gain, slope, clamp)
        output[start:stop] = downsampling.apply(inner, down_both, down_both, flip_filters)
    output = output.view(batch, channels, out_height, out_width)
    if _is_channels_last(x):
        output = output.contiguous(memory_format=torch.channels_last)
    return output, None if written is None else written.unflatten(0, (batch, channels)), 0


def filtered_lrelu_act_(
    x: Tensor, si: Tensor, sx: int, sy: int, gain: float, slope: float, clamp: float, writeSigns: bool
) -> Tensor | None:
    """Multiply ``x`` (N, C, H, W) by ``gain``, apply the leaky relu, clamp to ±``clamp``; all in place.

    - ``writeSigns``: also return what happened to each value, two bits a value: 1 was negative, 2 was
      clamped. Four values share a byte, the first in its lowest bits; rows are padded to a multiple of 16
      values. The shape is (N, C, H, W rounded up / 4), uint8.
    - otherwise, with ``si`` not empty: the derivative. Such signs, read at column ``sx`` and row ``sy``
      onwards, decide instead of the values: ``slope`` where negative, 0 where clamped; values for which
      there is no sign are only multiplied by ``gain``. Returns None.
    - otherwise: returns None.
    """
    inner = x.to(accumulation_dtype(x)).flatten(0, 1)
    packed = None
    if writeSigns:
        packed = _pack_codes(_activate_(inner, gain, slope, clamp)).unflatten(0, x.shape[:2])
    elif si.numel():
        _activate_by_codes_(inner, _unpack_codes(si).flatten(0, 1), sx, sy, gain, slope)
    else:
        _activate_(inner, gain, slope, clamp)
    x.copy_(inner.view(x.shape))
    return packed


class _Resampling:
    """The change of the sampling rate along one axis."""

    def __init__(self, up: int, down: int, pad_before: int, pad_after: int) -> None:
        if up < 1 or down < 1:
            raise RuntimeError(f"upfirdn2d: found up={up}, down={down}, expected at least 1")
        self.up, self.down, self.pad_before, self.pad_after = up, down, pad_before, pad_after

    def output_size(self, size: int, taps: int) -> int:
        """The number of output samples for ``size`` input samples and a filter of ``taps``."""
        padded = size * self.up + self.pad_before + self.pad_after
        if padded < taps:
            raise RuntimeError(
                f"upfirdn2d: found {padded} samples after upsampling and padding, expected at least the "
                f"{taps} of the filter: pad more or crop less"
            )
        return (padded - taps) // self.down + 1

    def phases(self, taps: int, size: int, output_size: int) -> Iterator[_Phase]:
        """The outputs in groups that look at the upsampled axis with the same offset to its samples.

        Output ``o`` sees, with tap ``k``, the position ``o down + k - pad_before`` of the upsampled axis;
        there is a sample if ``up`` divides it, otherwise an inserted zero.
        """
        common = math.gcd(self.up, self.down)
        period, step = self.up // common, self.down // common
        for first in range(min(period, output_size)):
            tap = (self.pad_before - first * self.down) % self.up
            count = -((first - output_size) // period)
            length = len(range(tap, taps, self.up))
            start = (first * self.down + tap - self.pad_before) // self.up
            padding = (-start, start + (count - 1) * step + length - size)
            yield _Phase(slice(first, None, period), slice(tap, None, self.up), padding, step)


class _Phase(NamedTuple):
    """Outputs for which the filter is an ordinary one, over samples only."""

    outputs: slice
    #: The taps that meet samples.
    taps: slice
    #: Zeros to put before and after the samples; negative: samples to drop.
    padding: tuple[int, int]
    stride: int


class _Separable:
    """A filter as one pass, or as one pass along each axis."""

    def __init__(self, passes: list[Tensor]) -> None:
        self._passes = passes

    @classmethod
    def of(cls, filter: Tensor, dtype: torch.dtype, gain: float) -> _Separable:
        taps = filter.to(dtype)
        return cls([taps * gain] if taps.dim() == 2 else [taps[None], taps[:, None] * gain])

    def apply(self, planes: Tensor, rows: _Resampling, columns: _Resampling, flip: bool) -> Tensor:
        """Filter (P, H, W)."""
        if len(self._passes) == 1:
            return _filter_planes(planes, self._passes[0], rows, columns, flip)
        unchanged = _Resampling(1, 1, 0, 0)
        planes = _filter_planes(planes, self._passes[0], unchanged, columns, flip)
        return _filter_planes(planes, self._passes[1], rows, unchanged, flip)


def _filter_planes(
    planes: Tensor, taps: Tensor, rows: _Resampling, columns: _Resampling, flip: bool
) -> Tensor:
    """Filter (P, H, W) with ``taps`` (FH, FW) of the same dtype."""
    if not flip:
        taps = taps.flip((0, 1))
    _, height, width = planes.shape
    output = planes.new_zeros(
        len(planes), rows.output_size(height, taps.shape[0]), columns.output_size(width, taps.shape[1])
    )
    for row in rows.phases(taps.shape[0], height, output.shape[1]):
        for column in columns.phases(taps.shape[1], width, output.shape[2]):
            kernel = taps[row.taps, column.taps]
            if kernel.numel() and len(planes):
                samples = F.pad(planes[None], (*column.padding, *row.padding))
                kernels = kernel.expand(len(planes), 1, *kernel.shape)
                stride = (row.stride, column.stride)
                filtered = F.conv2d(samples, kernels, stride=stride, groups=len(planes))
                output[:, row.outputs, column.outputs] = filtered[0]
    return output


def _activate_(values: Tensor, gain: float, slope: float, clamp: float) -> Tensor:
    """Gain, leaky relu and clamp in place; returns the code of each value, uint8."""
    values.mul_(gain)
    negative = values < 0
    values.copy_(torch.where(negative, values * slope, values))
    clamped = values.abs() > clamp
    values.clamp_(-clamp, clamp)
    return negative.to(torch.uint8).masked_fill_(clamped, 2)


def _activate_by_codes_(values: Tensor, codes: Tensor, sx: int, sy: int, gain: float, slope: float) -> None:
    values.mul_(gain)
    height, width = values.shape[1:]
    top, bottom = max(0, -sy), min(height, codes.shape[1] - sy)
    left, right = max(0, -sx), min(width, codes.shape[2] - sx)
    if top < bottom and left < right:
        known = values[:, top:bottom, left:right]
        codes = codes[:, top + sy : bottom + sy, left + sx : right + sx]
        known.copy_(torch.where((codes & 1).bool(), known * slope, known).masked_fill_((codes & 2).bool(), 0))


def _pack_codes(codes: Tensor) -> Tensor:
    """(P, H, W) uint8 in 0..3 to (P, H, W rounded up to 16 / 4) uint8."""
    codes = F.pad(codes, [0, -codes.shape[2] % 16]).unflatten(2, (-1, 4))
    return codes[..., 0] + 4 * codes[..., 1] + 16 * codes[..., 2] + 64 * codes[..., 3]


def _unpack_codes(packed: Tensor) -> Tensor:
    """The inverse of :func:`_pack_codes` along the last dimension, with the padding."""
    return torch.stack([packed >> shift & 3 for shift in (0, 2, 4, 6)], -1).flatten(-2)


def _is_channels_last(tensor: Tensor) -> bool:
    return not tensor.is_contiguous() and tensor.is_contiguous(memory_format=torch.channels_last)
