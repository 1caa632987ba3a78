"""Masked convolution's gather and scatter against unfold and an ordinary convolution."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")
from torch.nn import functional as F  # noqa: E402

#: channels, height, width, kernel (rows, columns), padding
CASES = [(3, 6, 5, (3, 3), (1, 1)), (2, 4, 7, (1, 5), (0, 2)), (1, 1, 1, (3, 3), (1, 1))]
DTYPES = [torch.float64, torch.float32, torch.float16]


def chosen_pixels(height, width):
    mask = torch.rand(height, width) < 0.4
    mask[0, 0] = True
    return mask.nonzero(as_tuple=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("channels", "height", "width", "kernel", "padding"), CASES)
def test_columns_are_those_that_unfold_gives(extension, channels, height, width, kernel, padding, dtype):
    image = torch.randn(1, channels, height, width).to(dtype)
    rows, columns = chosen_pixels(height, width)
    col = torch.full((channels * math.prod(kernel), len(rows)), 7.0, dtype=dtype)
    extension.masked_im2col_forward(
        image, rows, columns, col, kernel_h=kernel[0], kernel_w=kernel[1], pad_h=padding[0], pad_w=padding[1]
    )
    unfolded = F.unfold(image.double(), kernel, padding=padding)[0].view(-1, height, width)
    assert torch.equal(col.double(), unfolded[:, rows, columns])


@pytest.mark.parametrize("dtype", DTYPES)
def test_columns_go_back_to_their_pixels_and_others_keep_their_value(extension, dtype):
    rows, columns = chosen_pixels(5, 6)
    col, image = torch.randn(4, len(rows)).to(dtype), torch.full((1, 4, 5, 6), 7.0, dtype=dtype)
    expected = image.clone()
    for m, (row, column) in enumerate(zip(rows, columns)):
        expected[0, :, row, column] = col[:, m]
    extension.masked_col2im_forward(col, rows, columns, image, height=5, width=6, channels=4)
    assert torch.equal(image, expected)


def test_no_pixel_chosen_writes_nothing(extension):
    nothing = torch.zeros(0, dtype=torch.int64)
    col, image = torch.zeros(9, 0), torch.full((1, 2, 3, 3), 7.0)
    extension.masked_im2col_forward(torch.rand(1, 1, 3, 3), nothing, nothing, col, 3, 3, 1, 1)
    extension.masked_col2im_forward(torch.zeros(2, 0), nothing, nothing, image, 3, 3, 2)
    assert (image == 7).all()
