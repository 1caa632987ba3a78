"""Calls as mmcv 1.x writes them, whose compiled functions had other arguments."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")


def test_upfirdn2d_as_mmcv_1_calls_it_takes_images_with_channels_last(extension):
    """mmcv 1.7.2, mmcv/ops/upfirdn2d.py: images are reshaped to (N C, H, W, 1)."""
    image, kernel = torch.randn(2, 3, 6, 5), torch.randn(4, 3)
    names = ("up_x", "up_y", "down_x", "down_y", "pad_x0", "pad_x1", "pad_y0", "pad_y1")
    sizes = (2, 3, 1, 2, 2, 1, 3, 1)
    result = extension.upfirdn2d(image.reshape(-1, 6, 5, 1), kernel, **dict(zip(names, sizes)))
    expected = extension.upfirdn2d(image, kernel, *sizes, False, 1.0)
    assert torch.equal(result.view(expected.shape), expected)
    assert torch.equal(extension.upfirdn2d(image.reshape(-1, 6, 5, 1), kernel, *sizes), result)


def test_hard_voxelize_as_mmcv_1_4_calls_it_is_deterministic(extension):
    """mmcv 1.4.0, mmcv/ops/voxelize.py: there is no argument deterministic."""
    points = torch.rand(50, 4) * 4
    settings = {"max_points": 3, "max_voxels": 20, "NDim": 3}
    results = []
    for extra in ({}, {"deterministic": True}):
        outputs = (
            torch.zeros(20, 3, 4),
            torch.zeros(20, 3, dtype=torch.int),
            torch.zeros(20, dtype=torch.int),
            torch.zeros((), dtype=torch.long),
        )
        size, bounds = torch.tensor([1.0, 1.0, 2.0]), torch.tensor([0.0, 0.0, 0.0, 4.0, 4.0, 4.0])
        extension.hard_voxelize_forward(points, size, bounds, *outputs, **settings, **extra)
        results.append(outputs)
    assert all(torch.equal(earlier, present) for earlier, present in zip(*results))
    assert results[0][3] > 0


def test_chamfer_distance_backward_as_mmcv_1_5_calls_it_writes_the_same_gradients(extension):
    """mmcv 1.5.3, mmcv/ops/chamfer_distance.py: the gradients of the points stand before those of the distances."""
    points, others = torch.randn(2, 5, 2), torch.randn(2, 7, 2)
    indices = torch.randint(7, (2, 5), dtype=torch.int), torch.randint(5, (2, 7), dtype=torch.int)
    distances = torch.randn(2, 5), torch.randn(2, 7)
    present, earlier = ((torch.zeros(2, 5, 2), torch.zeros(2, 7, 2)) for _ in range(2))
    extension.chamfer_distance_backward(points, others, *indices, *distances, *present)
    extension.chamfer_distance_backward(points, others, *earlier, *distances, *indices)
    assert all(torch.equal(*gradients) and gradients[0].any() for gradients in zip(earlier, present))


def test_an_argument_that_no_version_has_is_an_error(extension):
    with pytest.raises(TypeError, match="up_z"):
        extension.upfirdn2d(torch.rand(1, 1, 4, 4), torch.rand(2, 2), up_z=1)
