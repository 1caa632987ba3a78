"""FIR filtering with a change of the sampling rate, and StyleGAN3's leaky relu between two such filters.

Karras et al., "Alias-Free Generative Adversarial Networks", 2021, https://arxiv.org/abs/2106.12423; mmcv
2.1.0, ``upfirdn2d_kernel.cu`` and ``filtered_lrelu.cu``. Half precision is computed in float32 and rounded
once.

A filter tap meets only those outputs for which it falls on a sample, not on one of the zeros that
upsampling inserts. For one tap these outputs, and the samples, are at a constant distance. So each tap is
one multiplication of two strided views, nothing is padded and no zero is multiplied.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from .chunking import row_ranges
from .precision import accumulation_dtype

__all__ = ["filtered_lrelu", "filtered_lrelu_act_", "upfirdn2d"]


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
    for start, stop in row_ranges(len(planes), inner_height * inner_width):
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

    def meeting(self, tap: int, size: int, output_size: int) -> tuple[slice, slice] | None:
        """The outputs that meet a sample at this tap of a correlation, and those samples.

        Output ``o`` looks at the position ``o down + tap - pad_before`` of the upsampled axis, where there is
        a sample if ``up`` divides it.
        """
        common = math.gcd(self.up, self.down)
        output_step, sample_step = self.up // common, self.down // common
        offset = tap - self.pad_before
        if offset % common:
            return None
        first = next(o for o in range(output_step) if (o * self.down + offset) % self.up == 0)
        sample = (first * self.down + offset) // self.up
        if sample < 0:
            skipped = -(sample // sample_step)
            first, sample = first + skipped * output_step, sample + skipped * sample_step
        count = min(-((first - output_size) // output_step), -((sample - size) // sample_step))
        if count < 1:
            return None
        return (
            slice(first, first + (count - 1) * output_step + 1, output_step),
            slice(sample, sample + (count - 1) * sample_step + 1, sample_step),
        )


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
    for y in range(taps.shape[0]):
        row_meeting = rows.meeting(y, height, output.shape[1])
        for x in range(taps.shape[1]):
            column_meeting = columns.meeting(x, width, output.shape[2])
            if row_meeting and column_meeting:
                (to_y, from_y), (to_x, from_x) = row_meeting, column_meeting
                output[:, to_y, to_x].addcmul_(planes[:, from_y, from_x], taps[y, x])
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
