"""upfirdn2d against zero insertion and a convolution; filtered_lrelu against its steps with autograd."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")
from torch.nn import functional as F  # noqa: E402

DTYPES = [torch.float64, torch.float32, torch.float16]
NONE = torch.empty(0)

#: shape, filter, up (x, y), down (x, y), padding (x0, x1, y0, y1)
CASES = [
    ((2, 3, 7, 5), (4, 3), (1, 1), (1, 1), (1, 2, 2, 1)),
    ((1, 2, 6, 9), (5, 4), (2, 3), (1, 1), (3, 1, 2, 4)),
    ((2, 1, 11, 8), (3, 6), (1, 1), (3, 2), (0, 4, 1, 0)),
    ((1, 2, 9, 9), (7, 5), (4, 2), (6, 3), (5, 2, 0, 3)),
    ((1, 1, 8, 9), (2, 3), (3, 2), (2, 5), (-2, -1, -3, 2)),
    ((1, 1, 1, 1), (1, 1), (1, 1), (1, 1), (0, 0, 0, 0)),
    ((0, 2, 4, 4), (3, 3), (2, 2), (1, 1), (1, 1, 1, 1)),
]


def upfirdn(x, taps, up, down, padding, flip, gain):
    """By the definition: insert zeros, pad or crop, convolve each channel, keep every n-th."""
    (up_x, up_y), (down_x, down_y) = up, down
    batch, channels, height, width = x.shape
    spread = x.new_zeros(batch, channels, height * up_y, width * up_x)
    spread[:, :, ::up_y, ::up_x] = x
    padded = F.pad(spread, padding)
    taps = (taps if flip else taps.flip((0, 1))) * gain
    planes = padded.reshape(batch * channels, 1, *padded.shape[2:])
    windows = planes.unfold(2, taps.shape[0], 1).unfold(3, taps.shape[1], 1)
    result = (windows * taps).sum((-1, -2)).reshape(batch, channels, *windows.shape[2:4])
    return result[:, :, ::down_y, ::down_x]


def settings(up, down, padding, flip, gain):
    names = ("upx", "upy", "downx", "downy", "padx0", "padx1", "pady0", "pady1")
    return {**dict(zip(names, (*up, *down, *padding))), "flip": flip, "gain": gain}


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "filter_shape", "up", "down", "padding"), CASES)
def test_upfirdn2d(extension, assert_matches, shape, filter_shape, up, down, padding, flip, dtype):
    x, taps = torch.randn(shape).to(dtype), torch.randn(filter_shape)
    expected = upfirdn(x.double(), taps.double(), up, down, padding, flip, 1.7)
    output = extension.upfirdn2d(x, taps, **settings(up, down, padding, flip, 1.7))
    assert output.dtype == dtype
    assert_matches(output, expected, scale=8)


@pytest.mark.parametrize("case", CASES[:-1])
def test_upfirdn2d_with_the_settings_of_its_backward_is_the_adjoint(extension, assert_matches, case):
    """mmcv computes the gradient by a second call, with up and down exchanged (mmcv/ops/upfirdn2d.py)."""
    shape, filter_shape, up, down, padding = case
    x, taps = torch.randn(shape, dtype=torch.float64), torch.randn(filter_shape)
    output = extension.upfirdn2d(x, taps, **settings(up, down, padding, False, 1.7))
    grad = torch.randn_like(output)
    adjoint_padding = []
    for axis, p0 in ((3, padding[0]), (2, padding[2])):
        factor_up, factor_down, size = up[3 - axis], down[3 - axis], filter_shape[axis - 2]
        after = shape[axis] * factor_up - output.shape[axis] * factor_down + p0 - factor_up + 1
        adjoint_padding += [size - p0 - 1, after]
    grad_input = extension.upfirdn2d(grad, taps, **settings(down, up, adjoint_padding, True, 1.7))
    assert_matches((grad_input * x).sum(), (grad * output).sum(), scale=100)


def test_upfirdn2d_equals_scipy_on_an_axis(extension, assert_matches):
    signal = pytest.importorskip("scipy.signal", reason="scipy is not installed")
    x, taps = torch.randn(1, 1, 1, 50, dtype=torch.float64), torch.randn(7, dtype=torch.float64)
    expected = torch.from_numpy(signal.upfirdn(taps.numpy(), x.flatten().numpy(), up=3, down=2))
    output = extension.upfirdn2d(x, taps[None], 3, 1, 2, 1, 6, 6, 0, 0, False, 1.0).flatten()
    assert_matches(output[: len(expected)], expected)


def test_upfirdn2d_keeps_the_memory_format(extension):
    x = torch.randn(2, 3, 6, 5).contiguous(memory_format=torch.channels_last)
    output = extension.upfirdn2d(x, torch.randn(2, 2), 2, 2, 1, 1, 1, 0, 1, 0, False, 1.0)
    assert output.is_contiguous(memory_format=torch.channels_last)


def test_an_image_smaller_than_the_filter_is_an_error(extension):
    with pytest.raises(RuntimeError, match="found 4 samples after upsampling and padding"):
        extension.upfirdn2d(torch.rand(1, 1, 8, 3), torch.rand(5, 5), 1, 1, 1, 1, 1, 0, 0, 0, False, 1.0)


def lrelu_steps(x, fu, fd, bias, up, down, padding, gain, slope, clamp, flip):
    def separable(filter):
        filter = filter.double()
        return filter if filter.dim() == 2 else filter[:, None] * filter

    y = x.double() + bias.double()[:, None, None]
    y = upfirdn(y, separable(fu), (up, up), (1, 1), padding, flip, up**2)
    y = (F.leaky_relu(y * gain, slope)).clamp(-clamp, clamp)
    return upfirdn(y, separable(fd), (1, 1), (down, down), (0, 0, 0, 0), flip, 1.0)


#: shape, up filter, down filter, up, down, padding
LRELU_CASES = [
    ((2, 3, 6, 5), (4,), (6,), 2, 2, (3, 4, 5, 2)),
    ((1, 2, 5, 7), (3, 4), (2, 3), 3, 1, (2, 2, 2, 2)),
    ((2, 1, 9, 8), (1,), (5,), 1, 3, (4, 1, 2, 3)),
    ((1, 2, 7, 21), (2, 2), (4,), 4, 2, (-1, 2, 1, -2)),
]


@pytest.mark.parametrize("clamp", [0.8, math.inf])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", LRELU_CASES)
def test_filtered_lrelu_and_gradient_by_its_signs(extension, assert_matches, case, dtype, clamp):
    shape, fu_shape, fd_shape, up, down, padding = case
    gain, slope, flip = 1.4, 0.2, False
    x, bias = torch.randn(shape).to(dtype), torch.randn(shape[1]).to(dtype)
    fu, fd = torch.rand(fu_shape) / fu_shape[0], torch.rand(fd_shape) / fd_shape[0]
    exact = x.double().requires_grad_()
    expected = lrelu_steps(exact, fu, fd, bias, up, down, padding, gain, slope, clamp, flip)

    output, signs, code = extension.filtered_lrelu(
        x, fu, fd, bias, NONE, up, down, *padding, 0, 0, gain, slope, clamp, flip, True
    )
    assert code == 0 and signs.dtype == torch.uint8 and signs.shape[3] % 4 == 0
    assert_matches(output, expected)

    # The gradient, as mmcv/ops/filtered_lrelu.py computes it: the other way round, with the signs kept.
    grad = torch.randn_like(output)
    (slope_of_x,) = torch.autograd.grad(expected, exact, grad.double())
    (px0, _, py0, _), (height, width) = padding, shape[2:]
    adjoint_padding = (
        (fu.shape[-1] - 1) + (fd.shape[-1] - 1) - px0,
        width * up - output.shape[3] * down + px0 - (up - 1),
        (fu.shape[0] - 1) + (fd.shape[0] - 1) - py0,
        height * up - output.shape[2] * down + py0 - (up - 1),
    )
    sx, sy = px0 - (fu.shape[-1] - 1), py0 - (fu.shape[0] - 1)
    gain = gain * up**2 / down**2
    zeros = torch.zeros(shape[1], dtype=dtype)
    grad_input, no_signs, code = extension.filtered_lrelu(
        grad, fd, fu, zeros, signs, down, up, *adjoint_padding, sx, sy, gain, slope, math.inf, True, False
    )
    assert code == 0 and no_signs is None
    if dtype == torch.float64:  # a rounded value near 0 or near the clamp has the other slope
        assert_matches(grad_input, slope_of_x)


def test_filtered_lrelu_in_ranges_of_channels_is_the_same(extension, monkeypatch):
    arguments = (torch.randn(2, 3, 8, 8), torch.rand(4), torch.rand(4), torch.randn(3), NONE)
    rest = (2, 2, 3, 3, 3, 3, 0, 0, 1.4, 0.2, 0.5, False, True)
    whole = extension.filtered_lrelu(*arguments, *rest)
    from mmcv_patches.extension import resampling_filters

    chunked = resampling_filters.row_ranges
    monkeypatch.setattr(resampling_filters, "row_ranges", lambda rows, size: chunked(rows, size, 2 * size))
    parts = extension.filtered_lrelu(*arguments, *rest)
    assert torch.equal(whole[0], parts[0]) and torch.equal(whole[1], parts[1])


def test_filtered_lrelu_refuses_an_upsampled_image_smaller_than_the_second_filter(extension):
    with pytest.raises(RuntimeError, match="expected at least the 9 of the filter"):
        extension.filtered_lrelu(
            torch.rand(1, 1, 4, 4), torch.rand(1), torch.rand(9), torch.rand(1), NONE,
            1, 1, 0, 0, 0, 0, 0, 0, 1.0, 0.2, 1.0, False, False,
        )  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
def test_filtered_lrelu_act_writes_what_happened_to_each_value(extension, assert_matches, dtype):
    x = torch.randn(2, 3, 5, 21).to(dtype)
    values = x.double() * 1.5
    activated = torch.where(values < 0, values * 0.25, values)
    clamped = activated.abs() > 0.3
    codes = (values < 0).int().masked_fill(clamped, 2)

    result = x.clone()
    signs = extension.filtered_lrelu_act_(result, NONE, 0, 0, 1.5, 0.25, 0.3, True)
    assert_matches(result, activated.clamp(-0.3, 0.3))
    assert signs.shape == (2, 3, 5, 32 // 4) and signs.dtype == torch.uint8
    for column in range(21):
        assert torch.equal(
            signs[..., column // 4] >> 2 * (column % 4) & 3, codes[..., column].to(torch.uint8)
        )
    assert not signs[..., 6:].any() and not (signs[..., 5] >> 2).any()  # padding

    quiet = x.clone()
    assert extension.filtered_lrelu_act_(quiet, NONE, 0, 0, 1.5, 0.25, 0.3, False) is None
    assert torch.equal(quiet, result)


@pytest.mark.parametrize(("sx", "sy"), [(0, 0), (-3, 2), (4, -1), (40, 0)])
def test_filtered_lrelu_act_reads_signs_at_an_offset(extension, assert_matches, sx, sy):
    written = torch.randn(1, 2, 6, 9, dtype=torch.float64)
    codes = F.pad((written < 0).int().masked_fill(written.abs() * 0.5 > 0.3, 2), [0, 7])
    codes[written.shape[-1] :] = 0
    signs = extension.filtered_lrelu_act_(written.clone(), NONE, 0, 0, 1.0, 0.5, 0.3, True)
    codes = torch.stack([signs >> shift & 3 for shift in (0, 2, 4, 6)], -1).flatten(-2)

    grad = torch.randn(1, 2, 7, 8, dtype=torch.float64)
    expected = grad * 2
    for y in range(7):
        for x in range(8):
            if 0 <= y + sy < 6 and 0 <= x + sx < 16:
                code = codes[..., y + sy, x + sx]
                factor = torch.where(code == 1, 0.5, 1.0).masked_fill(code == 2, 0)
                expected[..., y, x] *= factor
    result = grad.clone()
    assert extension.filtered_lrelu_act_(result, signs, sx, sy, 2.0, 0.5, 0.3, False) is None
    assert_matches(result, expected)


def test_filtered_lrelu_act_changes_a_channels_last_tensor_in_place(extension):
    x = torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    expected = torch.where(x < 0, x * 0.5, x)
    extension.filtered_lrelu_act_(x, NONE, 0, 0, 1.0, 0.5, math.inf, False)
    torch.testing.assert_close(x, expected)
