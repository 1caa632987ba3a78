"""RoI align, upright, rotated, along curves and by pixel, equals the compiled operators and the formula."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-9}
SIZE = (9, 13)
#: The map of the RoIs has a quarter of the size of the image they are given in.
SCALE = 0.25


def random_maps(dtype: torch.dtype, channels: int = 3) -> torch.Tensor:
    return torch.randn(2, channels, *SIZE, dtype=dtype)


def random_boxes(count: int, dtype: torch.dtype, largest: float = 40) -> torch.Tensor:
    """Image, x1, y1, x2, y2; many reach over the border of the image, some lie outside."""
    centre = torch.rand(count, 2, dtype=dtype) * torch.tensor([SIZE[1] * 6, SIZE[0] * 6]) - SIZE[0]
    half = torch.rand(count, 2, dtype=dtype) * largest / 2
    image = torch.randint(0, 2, (count, 1)).to(dtype)
    return torch.cat([image, centre - half, centre + half], 1)


def random_rotated_boxes(count: int, dtype: torch.dtype) -> torch.Tensor:
    image, corners = random_boxes(count, dtype).split([1, 4], 1)
    centre, size = (corners[:, :2] + corners[:, 2:]) / 2, corners[:, 2:] - corners[:, :2]
    angle = (torch.rand(count, 1, dtype=dtype) - 0.5) * 2 * math.pi
    return torch.cat([image, centre, size, angle], 1)


def random_curves(count: int, dtype: torch.dtype) -> torch.Tensor:
    boxes = random_boxes(count, dtype)
    points = boxes[:, None, 1:3] + torch.rand(count, 8, 2, dtype=dtype) * 30
    return torch.cat([boxes[:, :1], points.flatten(1)], 1)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("sampling_ratio", [0, 1, 2, 3])
@pytest.mark.parametrize("bins", [(1, 1), (3, 2), (7, 7)])
@pytest.mark.parametrize("pool_mode", [0, 1], ids=["maximum", "mean"])
def test_roi_align_equals_the_compiled_one(
    extension, compiled, dtype, aligned, sampling_ratio, bins, pool_mode
) -> None:
    maps, rois = random_maps(dtype), random_boxes(20, dtype)
    rois[3, 3:] = rois[3, 1:3]  # a RoI without area
    rest = {"aligned_height": bins[0], "aligned_width": bins[1], "spatial_scale": SCALE}
    rest.update(sampling_ratio=sampling_ratio, pool_mode=pool_mode, aligned=aligned)
    grad = torch.randn(len(rois), maps.shape[1], *bins, dtype=dtype)

    def run(module) -> list[torch.Tensor]:
        buffers = [torch.zeros_like(grad) for _ in range(3)]
        module.roi_align_forward(maps, rois, *buffers, **rest)
        grad_maps = torch.ones_like(maps)
        module.roi_align_backward(grad, rois, *buffers[1:], grad_maps, **rest)
        return [*buffers, grad_maps]

    for ours, theirs in zip(run(extension), run(compiled)):
        torch.testing.assert_close(ours, theirs, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("clockwise", [True, False])
@pytest.mark.parametrize("sampling_ratio", [0, 2])
@pytest.mark.parametrize("bins", [(1, 1), (3, 2), (7, 7)])
def test_rotated_roi_align_equals_the_compiled_one(
    extension, compiled, dtype, aligned, clockwise, sampling_ratio, bins
) -> None:
    maps, rois = random_maps(dtype), random_rotated_boxes(20, dtype)
    rest = {"pooled_height": bins[0], "pooled_width": bins[1], "spatial_scale": SCALE}
    rest.update(sampling_ratio=sampling_ratio, aligned=aligned, clockwise=clockwise)
    grad = torch.randn(len(rois), maps.shape[1], *bins, dtype=dtype)

    def run(module) -> list[torch.Tensor]:
        output, grad_maps = torch.zeros_like(grad), torch.ones_like(maps)
        module.roi_align_rotated_forward(maps, rois, output, **rest)
        module.roi_align_rotated_backward(grad, rois, grad_maps, **rest)
        return [output, grad_maps]

    for ours, theirs in zip(run(extension), run(compiled)):
        torch.testing.assert_close(ours, theirs, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("sampling_ratio", [0, 2])
@pytest.mark.parametrize("bins", [(1, 1), (3, 5)])
def test_bezier_align_equals_the_compiled_one(
    extension, compiled, dtype, aligned, sampling_ratio, bins
) -> None:
    maps, rois = random_maps(dtype), random_curves(20, dtype)
    rest = {"aligned_height": bins[0], "aligned_width": bins[1], "spatial_scale": SCALE}
    rest.update(sampling_ratio=sampling_ratio, aligned=aligned)
    grad = torch.randn(len(rois), maps.shape[1], *bins, dtype=dtype)

    def run(module) -> list[torch.Tensor]:
        output, grad_maps = torch.zeros_like(grad), torch.ones_like(maps)
        module.bezier_align_forward(maps, rois, output, **rest)
        module.bezier_align_backward(grad, rois, grad_maps, **rest)
        return [output, grad_maps]

    for ours, theirs in zip(run(extension), run(compiled)):
        torch.testing.assert_close(ours, theirs, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("points", [1, 5])
def test_rotated_feature_align_equals_the_compiled_one(extension, compiled, dtype, points) -> None:
    maps = random_maps(dtype)
    boxes = random_rotated_boxes(2 * SIZE[0] * SIZE[1], dtype)[:, 1:].contiguous().view(2, *SIZE, 5)
    grad = torch.randn_like(maps)

    def run(module) -> list[torch.Tensor]:
        output, grad_maps = torch.zeros_like(maps), torch.ones_like(maps)
        module.rotated_feature_align_forward(maps, boxes, output, spatial_scale=SCALE, points=points)
        module.rotated_feature_align_backward(grad, boxes, grad_maps, spatial_scale=SCALE, points=points)
        return [output, grad_maps]

    for ours, theirs in zip(run(extension), run(compiled)):
        # The compiled operator takes sine and cosine in single precision for every dtype.
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("sampling_ratio", [0, 2])
def test_roi_align_is_the_mean_of_its_samples(extension, bilinear, sampling_ratio: int) -> None:
    maps, rois = random_maps(torch.float64).requires_grad_(), random_boxes(6, torch.float64)
    expected = torch.zeros(6, 3, 2, 3, dtype=torch.float64)
    for number, (image, *corners) in enumerate(rois.tolist()):
        left, top, right, bottom = (corner * SCALE - 0.5 for corner in corners)
        height, width = (bottom - top) / 2, (right - left) / 3
        rows, columns = sampling_ratio or math.ceil(height), sampling_ratio or math.ceil(width)
        for i, j in ((i, j) for i in range(2) for j in range(3)):
            for k, m in ((k, m) for k in range(rows) for m in range(columns)):
                y = top + height * (i + (k + 0.5) / rows)
                x = left + width * (j + (m + 0.5) / columns)
                expected[number, :, i, j] += bilinear(maps[int(image)], y, x) / (rows * columns)
    actual = torch.zeros_like(expected)
    rest = (2, 3, SCALE, sampling_ratio, 1, True)
    extension.roi_align_forward(maps, rois, actual, torch.empty(0), torch.empty(0), *rest)
    torch.testing.assert_close(actual, expected.detach())
    grad, grad_maps = torch.randn_like(expected), torch.zeros_like(maps)
    extension.roi_align_backward(grad, rois, torch.empty(0), torch.empty(0), grad_maps, *rest)
    torch.testing.assert_close(grad_maps, torch.autograd.grad(expected, maps, grad)[0])


@pytest.mark.parametrize("clockwise", [True, False])
@pytest.mark.parametrize("samples", [0, 2])
def test_rotation_invariant_roi_align_turns_box_and_orientations(
    extension, bilinear, samples, clockwise
) -> None:
    orientations, bins = 4, (2, 3)
    maps = random_maps(torch.float64, channels=2 * orientations).requires_grad_()
    rois = random_rotated_boxes(6, torch.float64)
    expected = torch.zeros(6, 2, orientations, *bins, dtype=torch.float64)
    for number, (image, *box, angle) in enumerate(rois.tolist()):
        centre_x, centre_y, width, height = (value * SCALE for value in box)
        width, height = max(width, 1), max(height, 1)
        rows, columns = samples or math.ceil(height / bins[0]), samples or math.ceil(width / bins[1])
        turns = angle * orientations / (2 * math.pi)
        whole, part = math.floor(turns), turns - math.floor(turns)
        cosine, sine = math.cos(angle), math.sin(-angle if clockwise else angle)
        plane = maps[int(image)].unflatten(0, (2, orientations))
        # Orientation o of the output is between orientations o - turns, counted around.
        lower, upper = (plane.roll(shift, 1) for shift in (whole, whole - 1))
        plane = (1 - part) * lower + part * upper
        for i, j in ((i, j) for i in range(bins[0]) for j in range(bins[1])):
            for k, m in ((k, m) for k in range(rows) for m in range(columns)):
                y = height * ((i + (k + 0.5) / rows) / bins[0] - 0.5)
                x = width * ((j + (m + 0.5) / columns) / bins[1] - 0.5)
                turned = (y * cosine - x * sine + centre_y, y * sine + x * cosine + centre_x)
                expected[number, :, :, i, j] += bilinear(plane, *turned) / (rows * columns)
    expected = expected.flatten(1, 2)
    actual = torch.full_like(expected, 7)
    rest = (*bins, SCALE, samples, orientations, clockwise)
    extension.riroi_align_rotated_forward(maps, rois, actual, *rest)
    torch.testing.assert_close(actual, expected.detach())
    grad, grad_maps = torch.randn_like(expected), torch.ones_like(maps)
    extension.riroi_align_rotated_backward(grad, rois, grad_maps, *rest)
    torch.testing.assert_close(grad_maps, 1 + torch.autograd.grad(expected, maps, grad)[0])


@pytest.mark.parametrize("pool_mode", [0, 1])
def test_many_rois_are_worked_off_in_chunks(extension, monkeypatch, pool_mode: int) -> None:
    maps, rois = random_maps(torch.float64), random_boxes(40, torch.float64)
    rest = (3, 3, SCALE, 0, pool_mode, True)
    grad = torch.randn(40, 3, 3, 3, dtype=torch.float64)

    def run() -> list[torch.Tensor]:
        buffers, grad_maps = [torch.zeros_like(grad) for _ in range(3)], torch.zeros_like(maps)
        extension.roi_align_forward(maps, rois, *buffers, *rest)
        extension.roi_align_backward(grad, rois, *buffers[1:], grad_maps, *rest)
        return [*buffers, grad_maps]

    expected = run()
    monkeypatch.setattr("mmcv_patches.extension.roi_sampling.SAMPLED_PIXELS", 100)
    monkeypatch.setattr("mmcv_patches.extension.roi_align.SAMPLED_PIXELS", 100)
    for ours, theirs in zip(run(), expected):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("count", [1, 60], ids=["few pixels looked up", "all pixels looked up"])
def test_any_memory_format_and_half_precision_are_fine(extension, count: int) -> None:
    maps, rois = torch.randn(2, 3, 40, 30).half(), random_boxes(count, torch.float32).half()
    grad = torch.randn(count, 3, 4, 4).half()
    rest = (4, 4, SCALE, 0, 1, True)

    def run(maps, rois, grad) -> list[torch.Tensor]:
        output, grad_maps = torch.zeros_like(grad), torch.zeros_like(maps)
        extension.roi_align_forward(maps, rois, output, maps.new_empty(0), maps.new_empty(0), *rest)
        extension.roi_align_backward(grad, rois, maps.new_empty(0), maps.new_empty(0), grad_maps, *rest)
        return [output, grad_maps]

    single = run(maps.float(), rois.float(), grad.float())
    last = {"memory_format": torch.channels_last}
    for ours, expected in zip(run(maps.to(**last), rois, grad.to(**last)), single):
        assert ours.dtype == torch.float16
        torch.testing.assert_close(ours, expected.half(), check_stride=False)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_roi_that_is_not_finite_pools_nothing(extension, bad: float) -> None:
    maps, rois = random_maps(torch.float32), random_boxes(3, torch.float32)
    rois[1, 3] = bad
    output = torch.full((3, 3, 2, 2), 7.0)
    extension.roi_align_forward(
        maps, rois, output, maps.new_empty(0), maps.new_empty(0), 2, 2, SCALE, 0, 1, True
    )
    assert not output[1].any()
    assert output.isfinite().all()


def test_no_roi_gives_an_empty_result(extension) -> None:
    maps, rois = random_maps(torch.float32), random_boxes(0, torch.float32)
    output, grad_maps = torch.zeros(0, 3, 2, 2), torch.zeros_like(maps)
    for mode in (0, 1):
        extension.roi_align_forward(
            maps, rois, output, output.clone(), output.clone(), 2, 2, SCALE, 0, mode, True
        )
        extension.roi_align_backward(
            output, rois, output.clone(), output.clone(), grad_maps, 2, 2, SCALE, 0, mode, True
        )
    assert not grad_maps.any()
