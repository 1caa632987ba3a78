"""Text segmentation against the compiled functions, whose results depend on the order of their queues."""

from __future__ import annotations

from collections import deque

import pytest

torch = pytest.importorskip("torch")

SIZES = [(20, 30), (1, 17), (9, 1), (64, 64), (1, 1)]


def contour_case(height, width, kernels=4):
    """Nested random kernels and labels that start in the smallest."""
    level = torch.rand(height, width)
    masks = torch.stack([level < 0.95 - 0.1 * k for k in range(kernels)]).to(torch.uint8)
    labels = torch.randint(1, 5, (height, width), dtype=torch.int32)
    labels[(masks[-1] == 0) | (torch.rand(height, width) < 0.5)] = 0
    labels[height // 2, width // 2] = 1
    return masks, labels


def expand_with_a_queue(mask, labels, min_area):
    """The labels grown through one kernel, pixel by pixel."""
    area = torch.bincount(labels.flatten().long())
    image = [[v if v and area[v] >= min_area else 0 for v in row] for row in labels.tolist()]
    queue = deque((y, x) for y, row in enumerate(image) for x, v in enumerate(row) if v)
    while queue:
        y, x = queue.popleft()
        for v, u in ((y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)):
            if 0 <= v < len(image) and 0 <= u < len(image[0]) and mask[v][u] and not image[v][u]:
                image[v][u] = image[y][x]
                queue.append((v, u))
    return image


@pytest.mark.parametrize("min_area", [0, 20])
@pytest.mark.parametrize("size", SIZES)
def test_contour_expand_is_the_search_with_a_queue_in_the_largest_kernel(extension, size, min_area):
    masks, labels = contour_case(*size)
    result = extension.contour_expand(masks, labels, min_kernel_area=min_area, kernel_num=4)
    assert result == expand_with_a_queue(masks[0].tolist(), labels, min_area)
    assert all(type(value) is int for row in result for value in row)


@pytest.mark.parametrize("kernels", [1, 2, 3, 7])
@pytest.mark.parametrize("size", SIZES)
def test_contour_expand_equals_the_compiled_one(extension, compiled, size, kernels):
    masks, labels = contour_case(*size, kernels)
    ours = extension.contour_expand(masks, labels, 1, 4)
    assert ours == compiled.contour_expand(masks, labels, 1, 4)
    assert torch.tensor(ours).any()


def group_case(height, width, count=5, dimensions=4):
    labels = torch.randint(1, count, (height, width), dtype=torch.int32)
    labels[torch.rand(height, width) < 0.8] = 0
    return {
        "score": torch.rand(height, width),
        "mask": torch.rand(height, width) < 0.8,
        "embedding": torch.randn(height, width, dimensions),
        "kernel_label": labels,
        "kernel_contour": ((labels > 0) & (torch.rand(height, width) < 0.7)).to(torch.uint8),
        "kernel_region_label": count,
    }


def group_with_a_queue(score, mask, embedding, kernel_label, kernel_contour, kernel_region_label, limit):
    height, width = score.shape
    labels = kernel_label.clone()
    centres = [embedding[kernel_label == k].double().mean(0) for k in range(kernel_region_label)]
    queue = deque(tuple(p) for p in ((kernel_label > 0) & (kernel_contour > 0)).nonzero().tolist())
    while queue:
        y, x = queue.popleft()
        for v, u in ((y, x - 1), (y, x + 1), (y - 1, x), (y + 1, x)):
            if not (0 <= v < height and 0 <= u < width and mask[v, u]) or labels[v, u]:
                continue
            if (centres[labels[y, x]] - embedding[v, u].double()).norm() < limit:
                labels[v, u] = labels[y, x]
                queue.append((v, u))
    groups = []
    for label in range(kernel_region_label):
        pixels = (labels == label).nonzero() if label else torch.zeros(0, 2)
        chosen = score[labels == label].double() if label else torch.zeros(0)
        groups.append(
            [chosen.mean() if len(pixels) else 0.0, len(pixels), *pixels.flip(1).flatten().tolist()]
        )
    return groups


def assert_same_groups(ours, theirs):
    assert len(ours) == len(theirs)
    for our_group, their_group in zip(ours, theirs):
        assert our_group[1:] == list(map(float, their_group[1:]))
        assert our_group[0] == pytest.approx(float(their_group[0]), rel=1e-5)


@pytest.mark.parametrize("limit", [0.5, 2.0, 100.0])
@pytest.mark.parametrize("size", SIZES[:3] + SIZES[4:])
def test_pixel_group_is_the_search_with_a_queue(extension, size, limit):
    case = group_case(*size)
    result = extension.pixel_group(**case, distance_threshold=limit)
    assert_same_groups(result, group_with_a_queue(**case, limit=limit))
    assert all(type(value) is float for group in result for value in group)


@pytest.mark.parametrize("limit", [0.5, 2.0, 100.0])
@pytest.mark.parametrize("size", SIZES)
def test_pixel_group_equals_the_compiled_one(extension, compiled, size, limit):
    case = group_case(*size)
    ours = extension.pixel_group(**case, distance_threshold=limit)
    assert_same_groups(ours, compiled.pixel_group(**case, distance_threshold=limit))


def test_a_kernel_label_beyond_the_number_of_regions_is_an_error(extension):
    case = group_case(4, 4, count=5)
    case["kernel_label"][0, 0] = 4
    case["kernel_region_label"] = 4
    with pytest.raises(IndexError, match="found the kernel label 4, expected labels below 4"):
        extension.pixel_group(**case, distance_threshold=1.0)
