"""Overlaps of boxes of every kind equal the compiled operators, and geometry by shapely."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")
shapely = pytest.importorskip("shapely")
affinity = pytest.importorskip("shapely.affinity")


def random_boxes(count: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    corner, size = torch.rand(count, 2, dtype=dtype) * 50, torch.rand(count, 2, dtype=dtype) * 30 + 1
    return torch.cat([corner, corner + size], 1)


def random_rotated_boxes(count: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    place = torch.rand(count, 2, dtype=dtype) * 50
    angle = (torch.rand(count, 1, dtype=dtype) - 0.5) * 4 * math.pi
    return torch.cat([place, torch.rand(count, 2, dtype=dtype) * 30 + 1, angle], 1)


def random_quadrilaterals(count: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Convex ones, running one way or the other."""
    angle = torch.rand(count, 1, dtype=dtype) * 6 + torch.arange(4) * (math.pi / 2)
    angle = angle + (torch.rand(count, 4, dtype=dtype) - 0.5)
    radius = torch.rand(count, 4, dtype=dtype) * 4 + 10
    points = torch.rand(count, 1, 2, dtype=dtype) * 50
    points = points + torch.stack([radius * angle.cos(), radius * angle.sin()], 2)
    return torch.where(torch.rand(count, 1, 1) < 0.5, points, points.flip(1)).flatten(1)


def rectangle(box: torch.Tensor):
    x, y, width, height, angle = box.tolist()
    upright = shapely.box(x - width / 2, y - height / 2, x + width / 2, y + height / 2)
    return affinity.rotate(upright, angle, use_radians=True)


def polygon(values: torch.Tensor):
    return shapely.Polygon(values.view(-1, 2).tolist())


def exact_overlaps(first: list, second: list, over_first: bool = False) -> torch.Tensor:
    def overlap(one, other) -> float:
        common = one.intersection(other).area
        return common / (one.area if over_first else one.area + other.area - common)

    return torch.tensor([[overlap(one, other) for other in second] for one in first], dtype=torch.float64)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("counts", [(7, 5), (1, 1), (0, 5), (7, 0)])
def test_bbox_overlaps_equals_the_compiled_one(
    extension, compiled, dtype, offset, mode, aligned, counts
) -> None:
    first, second = random_boxes(counts[0]).to(dtype), random_boxes(counts[0 if aligned else 1]).to(dtype)
    shape = (len(first),) if aligned else (len(first), len(second))
    ours, theirs = torch.full(shape, 7, dtype=dtype), torch.full(shape, 7, dtype=dtype)
    extension.bbox_overlaps(first, second, ours, mode=mode, aligned=aligned, offset=offset)
    compiled.bbox_overlaps(first, second, theirs, mode=mode, aligned=aligned, offset=offset)
    torch.testing.assert_close(ours, theirs)


def test_bbox_overlaps_of_half_precision_boxes_do_not_overflow(extension) -> None:
    first, second = (random_boxes(9).half() * 20 for _ in range(2))
    expected = exact_overlaps(*([shapely.box(*box.tolist()) for box in boxes] for boxes in (first, second)))
    actual = torch.zeros(9, 9).half()
    extension.bbox_overlaps(first, second, actual, 0, False, 0)
    torch.testing.assert_close(actual, expected.half(), atol=1e-3, rtol=1e-3)


def test_many_boxes_are_compared_in_chunks(extension, monkeypatch) -> None:
    first, second = random_boxes(50), random_boxes(30)
    expected, chunked = torch.zeros(50, 30), torch.zeros(50, 30)
    extension.bbox_overlaps(first, second, expected, 0, False, 0)
    monkeypatch.setattr("mmcv_patches.extension.boxes.PAIRS", 100)
    extension.bbox_overlaps(first, second, chunked, 0, False, 0)
    assert torch.equal(chunked, expected)


@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("counts", [(60, 50), (1, 1), (0, 5), (7, 0)])
def test_rotated_overlaps_equal_the_compiled_ones(extension, compiled, mode, aligned, counts) -> None:
    first, second = random_rotated_boxes(counts[0]), random_rotated_boxes(counts[0 if aligned else 1])
    count = len(first) * (1 if aligned else len(second))
    ours, theirs = torch.full((count,), 7.0), torch.full((count,), 7.0)
    extension.box_iou_rotated(first, second, ours, mode_flag=mode, aligned=aligned)
    compiled.box_iou_rotated(first, second, theirs, mode_flag=mode, aligned=aligned)
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("mode", [0, 1])
def test_rotated_overlaps_are_those_of_the_rectangles(extension, mode: int) -> None:
    first, second = (random_rotated_boxes(25, torch.float64) for _ in range(2))
    expected = exact_overlaps([*map(rectangle, first)], [*map(rectangle, second)], mode == 1)
    actual = torch.zeros(25 * 25, dtype=torch.float64)
    extension.box_iou_rotated(first, second, actual, mode, False)
    torch.testing.assert_close(actual.view(25, 25), expected)


@pytest.mark.parametrize("kind", ["rotated", "quadri"])
def test_a_box_covers_itself(extension, kind: str) -> None:
    boxes = random_rotated_boxes(1000)
    if kind == "rotated":
        boxes[:, :2] *= 100
    else:
        corners = [list(rectangle(box).exterior.coords)[:4] for box in boxes]
        boxes = torch.tensor(corners).flatten(1)
    overlaps = torch.zeros(1000)
    getattr(extension, f"box_iou_{kind}")(boxes, boxes, overlaps, 0, True)
    torch.testing.assert_close(overlaps, torch.ones(1000), atol=1e-4, rtol=0)


def test_a_box_without_area_overlaps_nothing(extension) -> None:
    boxes = torch.tensor([[5.0, 5, 0, 4, 0.3], [5, 5, 4, 4, 0.3]])
    overlaps = torch.full((4,), 7.0)
    extension.box_iou_rotated(boxes, boxes, overlaps, 0, False)
    assert overlaps[:3].tolist() == [0, 0, 0]


@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("counts", [(60, 50), (1, 1), (0, 5), (7, 0)])
def test_overlaps_of_quadrilaterals_equal_the_compiled_ones(
    extension, compiled, mode, aligned, counts
) -> None:
    first, second = random_quadrilaterals(counts[0]), random_quadrilaterals(counts[0 if aligned else 1])
    count = len(first) * (1 if aligned else len(second))
    ours, theirs = torch.full((count,), 7.0), torch.full((count,), 7.0)
    extension.box_iou_quadri(first, second, ours, mode_flag=mode, aligned=aligned)
    compiled.box_iou_quadri(first, second, theirs, mode_flag=mode, aligned=aligned)
    # In single precision the sorting of the compiled operator loses a corner in about one of 3000 overlaps; there
    # ours agrees with its own result in double precision.
    exact = torch.zeros(count, dtype=torch.float64)
    extension.box_iou_quadri(first.double(), second.double(), exact, mode, aligned)
    torch.testing.assert_close(ours, exact.float(), atol=1e-4, rtol=1e-4)
    different = (ours - theirs).abs() > 1e-4
    assert different.sum() <= 1 + count // 1000
    assert (theirs[different] < ours[different]).all()


def test_a_vertex_far_outside_a_slanted_quadrilateral_counts_as_inside_it(extension, compiled) -> None:
    """Its projections on AB and AD lie within them, and that is what mmcv asks."""
    square = torch.tensor([[1.0, 8.0, 2.0, 8.0, 2.0, 10.0, 1.0, 10.0]])
    slanted = torch.tensor([[0.0, 0.0, 10.0, 0.0, 18.0, 4.0, 8.0, 4.0]])
    for module in (extension, compiled):
        covered = torch.zeros(1)
        module.box_iou_quadri(square, slanted, covered, mode_flag=1, aligned=False)
        assert covered.item() == 1


def test_overlaps_of_rectangles_written_as_quadrilaterals_are_exact(extension) -> None:
    rectangles = [rectangle(box) for box in random_rotated_boxes(25, torch.float64)]
    corners = torch.tensor([list(one.exterior.coords)[:4] for one in rectangles], dtype=torch.float64)
    actual = torch.zeros(25 * 25, dtype=torch.float64)
    extension.box_iou_quadri(corners.flatten(1), corners.flatten(1), actual, 0, False)
    torch.testing.assert_close(actual.view(25, 25), exact_overlaps(rectangles, rectangles))


def test_overlaps_from_above_are_those_of_the_ground_rectangles(extension) -> None:
    first, second = (torch.rand(20, 7, dtype=torch.float64) * 20 + 1 for _ in range(2))
    grounds = [[rectangle(box[[0, 1, 3, 4, 6]]) for box in boxes] for boxes in (first, second)]
    expected = [[one.intersection(other).area for other in grounds[1]] for one in grounds[0]]
    actual = torch.zeros(20, 20, dtype=torch.float64)
    extension.iou3d_boxes_overlap_bev_forward(first, second, actual)
    # A corner up to 0.01 outside counts as inside.
    difference = (actual - torch.tensor(expected, dtype=torch.float64)).abs()
    assert difference.max() < 0.3
    assert difference.median() < 1e-9


def test_overlaps_of_mmcv_1_4_take_corners_and_heading(extension) -> None:
    boxes = [torch.cat([random_boxes(20), torch.rand(20, 1) * 6], 1).double() for _ in range(2)]
    centred = [torch.cat([(b[:, :2] + b[:, 2:4]) / 2, b[:, 2:4] - b[:, :2], b[:, 4:]], 1) for b in boxes]
    expected = exact_overlaps(*([rectangle(box) for box in each] for each in centred))
    actual = torch.zeros(20, 20, dtype=torch.float64)
    extension.iou3d_boxes_iou_bev_forward(*boxes, actual)
    torch.testing.assert_close(actual, expected, atol=1e-4, rtol=0)


def test_points_in_polygons_are_counted_by_crossings(extension) -> None:
    points, quadrilaterals = torch.rand(300, 2) * 60, random_quadrilaterals(20)
    output = torch.full((300, 20), 7.0)
    extension.points_in_polygons_forward(points, quadrilaterals, output)
    expected = [
        [float(polygon(q).contains(shapely.Point(*p.tolist()))) for q in quadrilaterals] for p in points
    ]
    assert torch.equal(output, torch.tensor(expected))


def test_a_point_on_a_side_ends_the_count_of_crossings(extension) -> None:
    square = torch.tensor([[0.0, 0, 2, 0, 2, 2, 0, 2]])
    points = torch.tensor([[0.0, 1], [2, 1], [1, 1], [0, 0]])
    output = torch.full((4, 1), 7.0)
    extension.points_in_polygons_forward(points, square, output)
    # By the order of the sides, the left one first, one crossing of the right side is not counted.
    assert output[:, 0].tolist() == [0, 0, 1, 0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_convex_iou_is_that_of_the_hull(extension, dtype) -> None:
    points, quadrilaterals = torch.rand(20, 18, dtype=dtype) * 40, random_quadrilaterals(15, dtype)
    hulls = [shapely.MultiPoint(p.view(9, 2).tolist()).convex_hull for p in points]
    output = torch.zeros(20, 15, dtype=dtype)
    extension.convex_iou(points, quadrilaterals, output)
    expected = exact_overlaps(hulls, [polygon(q) for q in quadrilaterals])
    torch.testing.assert_close(output.double(), expected, atol=1e-6, rtol=1e-6)


def generalized_overlap(points: torch.Tensor, quadrilateral: torch.Tensor) -> float:
    hull, other = shapely.MultiPoint(points.view(9, 2).tolist()).convex_hull, polygon(quadrilateral)
    common = hull.intersection(other).area
    union = hull.area + other.area - common
    around = hull.union(other).convex_hull.area
    return common / union - (around - union) / around


def test_convex_giou_and_its_gradient_are_those_of_the_hull(extension) -> None:
    points, quadrilaterals = torch.rand(10, 18, dtype=torch.float64) * 40, random_quadrilaterals(10).double()
    output = torch.zeros(10, 19, dtype=torch.float64)
    extension.convex_giou(points, quadrilaterals, output)
    step = 1e-5
    for number in range(10):
        expected = generalized_overlap(points[number], quadrilaterals[number])
        assert output[number, -1].item() == pytest.approx(expected, abs=1e-9)
        for coordinate in range(18):
            moved = torch.zeros(18, dtype=torch.float64)
            moved[coordinate] = step
            high, low = (
                generalized_overlap(points[number] + m, quadrilaterals[number]) for m in (moved, -moved)
            )
            assert output[number, coordinate].item() == pytest.approx((high - low) / (2 * step), abs=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_min_area_polygons_are_the_smallest_rectangles(extension, dtype) -> None:
    points = torch.rand(50, 18, dtype=dtype) * 40
    rectangles = torch.zeros(50, 8, dtype=dtype)
    extension.min_area_polygons(points, rectangles)
    for number in range(50):
        cloud = shapely.MultiPoint(points[number].view(9, 2).tolist())
        found = polygon(rectangles[number])
        assert found.area == pytest.approx(cloud.minimum_rotated_rectangle.area, rel=1e-4)
        assert found.buffer(1e-3).contains(cloud)


def test_sorted_vertices_give_the_area_of_the_intersection(extension) -> None:
    """The way mmcv's diff_iou_rotated uses them: eight corners, sixteen crossings, shoelace over the sorted ones."""
    first, second = random_rotated_boxes(200), random_rotated_boxes(200)
    second[:, :2] = first[:, :2] + torch.randn(200, 2) * 5
    second[:5] = first[:5]
    vertices, mask = torch.zeros(200, 24, 2), torch.zeros(200, 24, dtype=torch.bool)
    areas = []
    for number, (one, other) in enumerate(zip(map(rectangle, first), map(rectangle, second))):
        corners = [list(one.exterior.coords)[:4], list(other.exterior.coords)[:4]]
        vertices[number, :8] = torch.tensor(corners[0] + corners[1])
        inside = [other.buffer(1e-6).contains(shapely.Point(p)) for p in corners[0]]
        inside += [one.buffer(1e-6).contains(shapely.Point(p)) for p in corners[1]]
        mask[number, :8] = torch.tensor(inside)
        sides = [[shapely.LineString([c[i], c[(i + 1) % 4]]) for i in range(4)] for c in corners]
        for place, (a, b) in enumerate((a, b) for a in sides[0] for b in sides[1]):
            if number >= 5 and a.crosses(b):
                vertices[number, 8 + place] = torch.tensor(a.intersection(b).coords[0])
                mask[number, 8 + place] = True
        areas.append(one.intersection(other).area)
    count = mask.sum(1).int()
    mean = (vertices * mask[..., None]).sum(1, keepdim=True) / count[:, None, None]
    order = extension.diff_iou_rotated_sort_vertices_forward((vertices - mean)[None], mask[None], count[None])
    assert order.shape == (1, 200, 9)
    assert order.dtype == torch.int32
    sorted_vertices = (vertices * mask[..., None]).gather(1, order[0, :, :, None].expand(-1, -1, 2).long())
    x, y = sorted_vertices.unbind(2)
    area = (x[:, :-1] * y[:, 1:] - y[:, :-1] * x[:, 1:]).sum(1).abs() / 2
    torch.testing.assert_close(area, torch.tensor(areas), atol=1e-2, rtol=1e-3)
    few = count < 3
    assert few.any()
    assert not mask.gather(1, order[0].long())[few].any()
