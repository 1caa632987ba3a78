"""Pooling within 3D boxes equals a loop over boxes, cells and points, and its gradient that of the loop."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

OUT_SIZE = (3, 2, 4)


def example(boxes: int = 5, points: int = 200, channels: int = 3, dtype: torch.dtype = torch.float64):
    centre, size = torch.rand(boxes, 3) * 4 - 2, torch.rand(boxes, 3) * 2 + 1
    rois = torch.cat([centre, size, torch.rand(boxes, 1) * 6], 1).to(dtype)
    return rois, (torch.rand(points, 3) * 6 - 3).to(dtype), torch.randn(points, channels).to(dtype)


def members_by_loop(roi: torch.Tensor, points: torch.Tensor) -> dict[tuple[int, int, int], list[int]]:
    """The points of each cell of a box, in order."""
    yaw, size = roi[6], roi[3:6]
    rotation = torch.stack([torch.stack([yaw.cos(), yaw.sin()]), torch.stack([-yaw.sin(), yaw.cos()])])
    cells: dict[tuple[int, int, int], list[int]] = {}
    for index, point in enumerate(points):
        local = torch.cat([rotation @ (point[:2] - roi[:2]), (point[2] - roi[2]).reshape(1)])
        from_corner = local + torch.stack([size[0] / 2, size[1] / 2, size[2] * 0])
        if (from_corner[:2] > 0).all() and (from_corner < size).all() and from_corner[2] >= 0:
            cell = tuple(int(f / s * n) for f, s, n in zip(from_corner, size, OUT_SIZE))
            cells.setdefault(cell, []).append(index)
    return cells


def pooled_by_loop(rois, points, features, limit: int, mode: str) -> torch.Tensor:
    pooled = features.new_zeros(len(rois), *OUT_SIZE, features.shape[1])
    for number, roi in enumerate(rois):
        for cell, members in members_by_loop(roi, points).items():
            rows = features[members[:limit]]
            pooled[(number, *cell)] = rows.amax(0) if mode == "max" else rows.mean(0)
    return pooled


@pytest.mark.parametrize("mode", ["max", "avg"])
@pytest.mark.parametrize("slots", [2, 5, 128])
def test_roi_aware_pooling_of_mmcv_equals_a_loop_with_gradients(mmcv_ops, slots, mode) -> None:
    rois, points, features = example()
    features.requires_grad_()
    pooled = mmcv_ops.RoIAwarePool3d(OUT_SIZE, slots, mode)(rois, points, features)
    expected = pooled_by_loop(rois, points, features, slots - 1, mode)
    assert expected.count_nonzero() > 20
    torch.testing.assert_close(pooled, expected)
    upstream = torch.randn_like(expected)
    (ours,) = torch.autograd.grad(pooled, features, upstream)
    (reference,) = torch.autograd.grad(expected, features, upstream)
    torch.testing.assert_close(ours, reference)


def test_roi_aware_pooling_records_the_points_of_each_cell(extension) -> None:
    rois, points, features = example()
    table = torch.zeros(5, *OUT_SIZE, 4, dtype=torch.int32)
    argmax = torch.zeros(5, *OUT_SIZE, 3, dtype=torch.int32)
    extension.roiaware_pool3d_forward(
        rois, points, features, argmax, table, torch.zeros(5, *OUT_SIZE, 3, dtype=torch.float64), 0
    )
    for number, roi in enumerate(rois):
        members = members_by_loop(roi, points)
        for cell in torch.cartesian_prod(*map(torch.arange, OUT_SIZE)).tolist():
            expected = members.get(tuple(cell), [])[:3]
            row = table[(number, *cell)].tolist()
            assert row[0] == len(expected)
            assert row[1 : 1 + len(expected)] == expected
            if expected:
                best = [expected[int(i)] for i in features[expected].argmax(0)]
                assert argmax[(number, *cell)].tolist() == best
            else:
                assert argmax[(number, *cell)].tolist() == [-1, -1, -1]


@pytest.mark.parametrize(("boxes", "points"), [(0, 10), (4, 0)])
def test_roi_aware_pooling_of_nothing_is_zero(mmcv_ops, boxes, points) -> None:
    rois, positions, features = example(boxes, points)
    for mode in ("max", "avg"):
        features = features.detach().requires_grad_()
        pooled = mmcv_ops.RoIAwarePool3d(OUT_SIZE, 8, mode)(rois, positions, features)
        assert pooled.shape == (boxes, *OUT_SIZE, 3)
        assert not pooled.any()
        pooled.sum().backward()
        assert not features.grad.any()


def test_roi_aware_pooling_refuses_an_unknown_method(extension) -> None:
    rois, points, features = example()
    with pytest.raises(ValueError, match="pool_method is 2, expected 0"):
        extension.roiaware_pool3d_forward(
            rois,
            points,
            features,
            torch.zeros(5, *OUT_SIZE, 3).int(),
            torch.zeros(5, *OUT_SIZE, 4).int(),
            torch.zeros(5, *OUT_SIZE, 3),
            2,
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("wanted", [1, 6, 64])
def test_roi_point_pooling_takes_the_first_points_in_turn(extension, wanted, dtype) -> None:
    examples = [example(dtype=dtype) for _ in range(2)]
    rois, points, features = (torch.stack(values) for values in zip(*examples))
    rois[0, 1, :3] = 100
    pooled = torch.zeros(2, 5, wanted, 6, dtype=dtype)
    empty = torch.zeros(2, 5, dtype=torch.int32)
    extension.roipoint_pool3d_forward(points, rois, features, pooled, empty)
    inside = torch.zeros(2, 200, 5, dtype=torch.int32)
    extension.points_in_boxes_all_forward(rois, points, inside)
    for sample in range(2):
        for box in range(5):
            members = inside[sample, :, box].nonzero().flatten().tolist()
            assert empty[sample, box] == (not members)
            taken = [members[turn % len(members)] for turn in range(wanted)] if members else []
            if len(members) > wanted:
                taken = members[:wanted]
            expected = torch.cat([points[sample][taken], features[sample][taken]], 1)
            assert torch.equal(
                pooled[sample, box], expected if taken else torch.zeros(wanted, 6, dtype=dtype)
            )
    assert empty[0, 1]
