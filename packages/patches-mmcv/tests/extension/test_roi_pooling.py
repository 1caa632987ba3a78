"""RoI pooling by maximum, learned offsets and exact integrals, and border align, follow their formulas."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

SIZE = (8, 11)
SCALE = 0.5
DTYPES = [torch.float32, torch.float64]


def random_maps(dtype: torch.dtype, channels: int = 3) -> torch.Tensor:
    return torch.randn(2, channels, *SIZE, dtype=dtype)


def random_boxes(count: int, dtype: torch.dtype) -> torch.Tensor:
    centre = torch.rand(count, 2, dtype=dtype) * torch.tensor([SIZE[1] * 2.4, SIZE[0] * 2.4]) - 2
    half = torch.rand(count, 2, dtype=dtype) * 8
    return torch.cat([torch.randint(0, 2, (count, 1)).to(dtype), centre - half, centre + half], 1)


def assert_close(actual, expected, dtype) -> None:
    tolerance = 1e-4 if dtype == torch.float32 else 1e-9
    # Small RoIs have large gradients, which are sums of larger terms still.
    scale = max(10.0, float(expected.abs().max()))
    torch.testing.assert_close(actual, expected.to(dtype), atol=tolerance * scale, rtol=tolerance)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float16])
@pytest.mark.parametrize("bins", [(1, 1), (3, 2)])
def test_roi_pool_takes_the_maximum_of_the_pixels_a_bin_touches(extension, dtype, bins) -> None:
    maps, rois = random_maps(dtype), random_boxes(30, torch.float32).to(dtype)
    output = torch.full((30, 3, *bins), 7, dtype=dtype)
    argmax = torch.full((30, 3, *bins), 7, dtype=torch.int32)
    extension.roi_pool_forward(maps, rois, output, argmax, *bins, spatial_scale=SCALE)
    for number, (image, *corners) in enumerate(rois.tolist()):
        left, top, right, bottom = (value * SCALE for value in corners)
        height, width = bottom + SCALE - top, right + SCALE - left
        for i, j in ((i, j) for i in range(bins[0]) for j in range(bins[1])):
            rows = (top + i * height / bins[0], top + (i + 1) * height / bins[0])
            columns = (left + j * width / bins[1], left + (j + 1) * width / bins[1])
            y1, y2 = max(math.floor(rows[0]), 0), min(math.ceil(rows[1]), SIZE[0])
            x1, x2 = max(math.floor(columns[0]), 0), min(math.ceil(columns[1]), SIZE[1])
            region = maps[int(image), :, y1:y2, x1:x2]
            if y1 >= y2 or x1 >= x2:
                assert not output[number, :, i, j].any()
                assert (argmax[number, :, i, j] == -1).all()
                continue
            assert torch.equal(output[number, :, i, j], region.flatten(1).amax(1))
            found = maps[int(image)].flatten(1).gather(1, argmax[number, :, i, j, None].long())[:, 0]
            assert torch.equal(found, output[number, :, i, j])

    grad, grad_maps = torch.randn_like(output), torch.zeros_like(maps)
    extension.roi_pool_backward(grad, rois, argmax, grad_maps, *bins, spatial_scale=SCALE)
    expected = torch.zeros(maps.shape, dtype=torch.float64)
    for number, channel, i, j in torch.cartesian_prod(*(torch.arange(n) for n in output.shape)).tolist():
        pixel = int(argmax[number, channel, i, j])
        if pixel >= 0:
            expected[int(rois[number, 0]), channel].view(-1)[pixel] += grad[number, channel, i, j].double()
    torch.testing.assert_close(grad_maps, expected.to(dtype))


def test_of_equal_pixels_roi_pool_takes_the_first(extension) -> None:
    maps = torch.ones(1, 1, 4, 5)
    output, argmax = torch.zeros(1, 1, 1, 1), torch.zeros(1, 1, 1, 1, dtype=torch.int32)
    extension.roi_pool_forward(maps, torch.tensor([[0.0, 2, 1, 4, 3]]), output, argmax, 1, 1, 1.0)
    assert argmax.item() == 1 * 5 + 2


def test_roi_pool_leaves_a_roi_without_area_as_it_is(extension) -> None:
    output = torch.full((1, 3, 2, 2), 7.0)
    argmax = torch.full((1, 3, 2, 2), 7, dtype=torch.int32)
    rois = torch.tensor([[0.0, 5, 5, 3, 3]])
    extension.roi_pool_forward(random_maps(torch.float32), rois, output, argmax, 2, 2, 1.0)
    assert (output == 7).all()
    assert (argmax == 7).all()


def exact_integral(maps: torch.Tensor, rois: torch.Tensor, bins: tuple[int, int]) -> torch.Tensor:
    """Two Gauss points a pixel cell and axis integrate a bilinear surface exactly."""

    def nodes(start, end, size):
        # Cells between whole numbers, from one pixel before the map to one after it.
        cells = torch.arange(-1, size, dtype=start.dtype)
        low, high = torch.maximum(start, cells), torch.minimum(end, cells + 1)
        length = (high - low).clamp(min=0)
        middle = (low + high) / 2
        points = torch.stack([middle - length / math.sqrt(12), middle + length / math.sqrt(12)], 1)
        weights = torch.stack([length, length], 1) / 2
        hats = (1 - (points.flatten()[:, None] - torch.arange(size)).abs()).clamp(min=0)
        return weights.flatten() @ hats / (end - start)

    outputs = []
    for roi in rois:
        left, top, right, bottom = roi[1:] * SCALE
        rows = [
            nodes(top + (bottom - top) * i / bins[0], top + (bottom - top) * (i + 1) / bins[0], SIZE[0])
            for i in range(bins[0])
        ]
        columns = [
            nodes(left + (right - left) * j / bins[1], left + (right - left) * (j + 1) / bins[1], SIZE[1])
            for j in range(bins[1])
        ]
        plane = maps[int(roi[0])]
        outputs.append(torch.einsum("cyx,iy,jx->cij", plane, torch.stack(rows), torch.stack(columns)))
    return torch.stack(outputs)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bins", [(1, 1), (3, 2)])
def test_precise_roi_pooling_is_the_exact_mean(extension, dtype, bins) -> None:
    maps, rois = random_maps(dtype), random_boxes(12, dtype)
    exact_maps, exact_rois = maps.double().requires_grad_(), rois.double().requires_grad_()
    expected = exact_integral(exact_maps, exact_rois, bins)
    grad = torch.randn_like(expected)
    grads = torch.autograd.grad(expected, (exact_maps, exact_rois), grad)

    output = torch.full_like(expected, 7, dtype=dtype)
    extension.prroi_pool_forward(maps, rois, output, *bins, spatial_scale=SCALE)
    assert_close(output, expected.detach(), dtype)
    grad_maps, grad_rois = torch.ones_like(maps), torch.ones_like(rois)
    extension.prroi_pool_backward(grad.to(dtype), rois, grad_maps, *bins, spatial_scale=SCALE)
    assert_close(grad_maps, 1 + grads[0], dtype)
    extension.prroi_pool_coor_backward(
        output, grad.to(dtype), maps, rois, grad_rois, *bins, spatial_scale=SCALE
    )
    assert not grad_rois[:, 0].any()
    # Differences of near pixels divided by the extents of a bin: rounding grows as bins shrink.
    extents = (exact_rois.detach()[:, 3:] - exact_rois.detach()[:, 1:3]) * SCALE / torch.tensor(bins[::-1])
    shrunk = extents.clamp(max=1).prod(1, keepdim=True)
    assert_close(grad_rois[:, 1:] * shrunk.to(dtype), (1 + grads[1][:, 1:]) * shrunk, dtype)


@pytest.mark.parametrize("extent", [0.0, -3.0, float("nan"), float("inf")])
def test_precise_roi_pooling_of_an_empty_roi_is_zero(extension, extent: float) -> None:
    maps, rois = random_maps(torch.float32), torch.tensor([[0.0, 2, 2, 2 + extent, 9]])
    output, grad_rois = torch.full((1, 3, 2, 2), 7.0), torch.zeros(1, 5)
    extension.prroi_pool_forward(maps, rois, output, 2, 2, SCALE)
    assert not output.any()
    extension.prroi_pool_coor_backward(output, output + 1, maps, rois, grad_rois, 2, 2, SCALE)
    assert not grad_rois.any()


def deformable_loop(maps, rois, offset, bins, samples: int, gamma: float):
    """Output and the gradient function of mmcv's kernel, one sample at a time."""
    output = torch.zeros(len(rois), maps.shape[1], *bins, dtype=maps.dtype)
    grad_offset = torch.zeros(len(rois), maps.shape[1], 2, *bins, dtype=maps.dtype)
    pulls: list[tuple] = []
    for number, (image, *corners) in enumerate(rois.tolist()):
        left, top, right, bottom = (value * SCALE - 0.5 for value in corners)
        height, width = bottom - top, right - left
        rows, columns = samples or math.ceil(height / bins[0]), samples or math.ceil(width / bins[1])
        plane = maps[int(image)]
        for i, j in ((i, j) for i in range(bins[0]) for j in range(bins[1])):
            shift_x, shift_y = (offset[number, :, i, j] if offset.numel() else torch.zeros(2)).tolist()
            for k, m in ((k, m) for k in range(rows) for m in range(columns)):
                y = top + gamma * height * shift_y + height / bins[0] * (i + (k + 0.5) / rows)
                x = left + gamma * width * shift_x + width / bins[1] * (j + (m + 0.5) / columns)
                if not (-1 <= y <= SIZE[0] and -1 <= x <= SIZE[1]):
                    continue
                cy, cx = min(max(y, 0), SIZE[0] - 1), min(max(x, 0), SIZE[1] - 1)
                y1, x1 = int(cy), int(cx)
                y2, x2 = min(y1 + 1, SIZE[0] - 1), min(x1 + 1, SIZE[1] - 1)
                corners_ = [(y1, x1), (y1, x2), (y2, x1), (y2, x2)]
                v11, v12, v21, v22 = (plane[:, row, column] for row, column in corners_)
                ly, lx = cy - y1, cx - x1
                weights = [(1 - ly) * (1 - lx), (1 - ly) * lx, ly * (1 - lx), ly * lx]
                value = sum(w * v for w, v in zip(weights, (v11, v12, v21, v22)))
                output[number, :, i, j] += value / (rows * columns)
                share = gamma / (rows * columns)
                slope_x = (v22 - v21) * (y - y1) + (v12 - v11) * (y2 - y)
                slope_y = (v22 - v12) * (x - x1) + (v21 - v11) * (x2 - x)
                grad_offset[number, :, 0, i, j] += share * width * slope_x
                grad_offset[number, :, 1, i, j] += share * height * slope_y
                pulls.extend(
                    (int(image), number, i, j, row, column, weight / (rows * columns))
                    for (row, column), weight in zip(corners_, weights)
                )

    def backward(grad):
        grad_maps = torch.zeros_like(maps)
        for image, number, i, j, row, column, weight in pulls:
            grad_maps[image, :, row, column] += grad[number, :, i, j] * weight
        return grad_maps, (grad_offset * grad[:, :, None]).sum(1)

    return output, backward


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("samples", [0, 2])
@pytest.mark.parametrize("with_offset", [True, False])
def test_deformable_roi_pooling_moves_its_bins(extension, dtype, samples, with_offset) -> None:
    maps, rois, bins = random_maps(dtype), random_boxes(8, dtype), (2, 3)
    offset = torch.randn(8, 2, *bins, dtype=dtype) if with_offset else torch.empty(0, dtype=dtype)
    rest = (*bins, SCALE, samples, 0.3)
    expected, backward = deformable_loop(maps.double(), rois.double(), offset.double(), bins, samples, 0.3)
    output = torch.full_like(expected, 7, dtype=dtype)
    extension.deform_roi_pool_forward(maps, rois, offset, output, *rest)
    assert_close(output, expected, dtype)
    grad = torch.randn_like(expected)
    grad_maps, grad_offset = torch.ones_like(maps), torch.ones_like(offset)
    extension.deform_roi_pool_backward(grad.to(dtype), maps, rois, offset, grad_maps, grad_offset, *rest)
    expected_maps, expected_offset = backward(grad)
    assert_close(grad_maps, 1 + expected_maps, dtype)
    if with_offset:
        assert_close(grad_offset, 1 + expected_offset, dtype)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float16])
@pytest.mark.parametrize("pool_size", [1, 4])
def test_border_align_takes_the_maximum_along_each_side(extension, bilinear, dtype, pool_size) -> None:
    maps = random_maps(dtype, channels=12)
    boxes = random_boxes(2 * 7, torch.float32)[:, 1:].view(2, 7, 4).to(dtype) * SCALE
    output = torch.zeros(2, 3, 7, 4, dtype=dtype)
    argmax = torch.zeros(2, 3, 7, 4, dtype=torch.int32)
    extension.border_align_forward(maps, boxes, output, argmax, pool_size=pool_size)
    exact = maps.double().requires_grad_()
    expected = torch.zeros(2, 3, 7, 4, dtype=torch.float64)
    for image, number in ((image, number) for image in range(2) for number in range(7)):
        left, top, right, bottom = boxes[image, number].double().tolist()
        across, down = (right - left) / pool_size, (bottom - top) / pool_size
        for side in range(4):
            start = (left, top) if side < 2 else (right, bottom)
            step = [(across, 0), (0, down), (-across, 0), (0, -down)][side]
            plane = exact[image, side * 3 : side * 3 + 3]
            along = torch.stack(
                [
                    bilinear(plane, start[1] + step[1] * n, start[0] + step[0] * n)
                    for n in range(pool_size + 1)
                ]
            )
            chosen = argmax[image, :, number, side].long()
            expected[image, :, number, side] = along.gather(0, chosen[None])[0]
            if dtype == torch.float64:
                torch.testing.assert_close(expected[image, :, number, side], along.amax(0))
    tolerance = {torch.float16: 2e-3, torch.float32: 1e-5, torch.float64: 1e-9}[dtype]
    torch.testing.assert_close(output, expected.detach().to(dtype), atol=tolerance, rtol=tolerance)
    grad, grad_maps = torch.randn_like(output), torch.ones_like(maps)
    extension.border_align_backward(grad, boxes, argmax, grad_maps, pool_size=pool_size)
    expected_grad = 1 + torch.autograd.grad(expected, exact, grad.double())[0]
    torch.testing.assert_close(grad_maps, expected_grad.to(dtype), atol=tolerance, rtol=tolerance)
