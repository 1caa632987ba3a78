"""The plain PyTorch operators of mmcv._ext beside the compiled ones that run on the CPU, on one thread.

PATCHER_REFERENCE_MMCV names the folder of a compiled mmcv 2.1.0 (`environments.toml`, key `aside`).
"""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Callable, Iterator

import torch
from torch import Tensor

from .paired import Figure, Ratio, paired

#: Largest ratio that is good enough; the others are shown.
REACH = {
    "deform_conv_forward": 1 / 0.75,
    "roi_align_forward": 1 / 0.4,
    "hard_voxelize_forward": 1 / 0.2,
    "nms": 1 / 0.2,
}

Call = Callable[[ModuleType], Any]


def figures() -> Iterator[Figure]:
    """One figure for each function that was compiled with a kernel for the CPU."""
    for name, size, ratio in ratios():
        yield Figure(f"{name} ({size})", ratio, REACH.get(name), "mmcv 2.1.0 compiled")


def ratios() -> Iterator[tuple[str, str, Ratio]]:
    """Name of the function, what it was given, and the ratio."""
    from mmcv_patches.extension import build_extension_module, coverage

    compiled, portable = compiled_extension(), build_extension_module()
    if compiled is None:
        print("no compiled mmcv here: PATCHER_REFERENCE_MMCV is not set", file=sys.stderr)
        return
    missing = coverage().missing
    torch.set_num_threads(1)
    torch.manual_seed(0)
    for name, size, call in cases():
        if name not in missing:
            ours, peer = functools.partial(call, portable), functools.partial(call, compiled)
            yield name, size, paired(ours, peer, pairs=7, batch_seconds=0.02)


def compiled_extension() -> ModuleType | None:
    """The compiled module, loaded under a name of its own; None where there is none."""
    files = [*Path(os.environ.get("PATCHER_REFERENCE_MMCV", "."), "mmcv").glob("_ext*.so")]
    if not files:
        return None
    spec = importlib.util.spec_from_file_location("_ext", files[0])
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def cases() -> Iterator[tuple[str, str, Call]]:
    """Every compiled function with a kernel for the CPU, at a size that models use."""
    yield from convolutions()
    yield from regions()
    yield from boxes()
    yield from points()
    yield from segmentation()


def convolutions() -> Iterator[tuple[str, str, Call]]:
    image, offset, mask = torch.randn(2, 64, 50, 50), torch.randn(2, 18, 50, 50), torch.rand(2, 9, 50, 50)
    weight, bias, grad = torch.randn(64, 64, 3, 3), torch.randn(64), torch.randn(2, 64, 50, 50)
    size, empty = "2 x 64 x 50 x 50, 3 x 3", torch.empty(0)
    square, plain = (3, 3, 1, 1, 1, 1, 1, 1, 1, 1), torch.zeros
    yield (
        "deform_conv_forward",
        size,
        lambda e: e.deform_conv_forward(
            image, weight, offset, torch.empty_like(grad), empty.clone(), empty.clone(), *square, 2
        ),
    )
    yield (
        "deform_conv_backward_input",
        size,
        lambda e: e.deform_conv_backward_input(
            image, offset, grad, plain(image.shape), plain(offset.shape), weight, empty.clone(), *square, 2
        ),
    )
    yield (
        "deform_conv_backward_parameters",
        size,
        lambda e: e.deform_conv_backward_parameters(
            image, offset, grad, plain(weight.shape), empty.clone(), empty.clone(), *square, 1.0, 2
        ),
    )
    yield (
        "modulated_deform_conv_forward",
        size,
        lambda e: e.modulated_deform_conv_forward(
            image,
            weight,
            bias,
            empty.clone(),
            offset,
            mask,
            torch.empty_like(grad),
            empty.clone(),
            *square,
            True,
        ),
    )
    yield (
        "modulated_deform_conv_backward",
        size,
        lambda e: e.modulated_deform_conv_backward(
            image, weight, bias, empty.clone(), offset, mask, empty.clone(), plain(image.shape),
            plain(weight.shape), plain(64), plain(offset.shape), plain(mask.shape), grad, *square, True,
        ),
    )  # fmt: skip
    filters = torch.randn(64, 64, 8, 3, 3)
    order = torch.stack([torch.randperm(72) + 1 for _ in range(8)], 1).view(8, 3, 3, 8).int()
    rotated = torch.zeros(512, 512, 3, 3)
    size = "64 x 64 filters, 8 orientations"
    yield (
        "active_rotated_filter_forward",
        size,
        lambda e: e.active_rotated_filter_forward(filters, order, rotated),
    )
    yield (
        "active_rotated_filter_backward",
        size,
        lambda e: e.active_rotated_filter_backward(rotated, order, filters),
    )


def regions() -> Iterator[tuple[str, str, Call]]:
    image, count = torch.randn(2, 64, 100, 100), 200
    corners = torch.rand(count, 2) * 60
    rois = torch.cat([torch.randint(0, 2, (count, 1)), corners, corners + torch.rand(count, 2) * 40], 1)
    angles = torch.cat([rois[:, :1], rois[:, 1:3] + 20, torch.rand(count, 2) * 40, torch.randn(count, 1)], 1)
    curves = torch.cat([rois[:, :1], torch.rand(count, 16) * 90], 1)
    output, size = torch.zeros(count, 64, 7, 7), f"{count} regions of 2 x 64 x 100 x 100"
    argmax = torch.zeros(0), torch.zeros(0)
    settings = (7, 7, 1.0, 2)
    yield (
        "roi_align_forward",
        size,
        lambda e: e.roi_align_forward(image, rois, output, *argmax, *settings, 1, True),
    )
    yield (
        "roi_align_backward",
        size,
        lambda e: e.roi_align_backward(output, rois, *argmax, torch.zeros_like(image), *settings, 1, True),
    )
    yield (
        "roi_align_rotated_forward",
        size,
        lambda e: e.roi_align_rotated_forward(image, angles, output, *settings, True, False),
    )
    yield (
        "roi_align_rotated_backward",
        size,
        lambda e: e.roi_align_rotated_backward(
            output, angles, torch.zeros_like(image), *settings, True, False
        ),
    )
    yield (
        "bezier_align_forward",
        size,
        lambda e: e.bezier_align_forward(image, curves, output, *settings, True),
    )
    yield (
        "bezier_align_backward",
        size,
        lambda e: e.bezier_align_backward(output, curves, torch.zeros_like(image), *settings, True),
    )
    places = torch.rand(2, 100, 100, 5) * 90
    aligned, size = torch.zeros_like(image), "2 x 64 x 100 x 100, 5 points"
    yield (
        "rotated_feature_align_forward",
        size,
        lambda e: e.rotated_feature_align_forward(image, places, aligned, 1.0, 5),
    )
    yield (
        "rotated_feature_align_backward",
        size,
        lambda e: e.rotated_feature_align_backward(image, places, torch.zeros_like(image), 1.0, 5),
    )


def random_boxes(count: int, extent: float = 1000.0) -> Tensor:
    corners = torch.rand(count, 2) * extent
    return torch.cat([corners, corners + torch.rand(count, 2) * extent / 10], 1)


def boxes() -> Iterator[tuple[str, str, Call]]:
    many, few = random_boxes(10_000), random_boxes(1_000)
    scores, fewer_scores = torch.rand(10_000), torch.rand(1_000)
    overlaps = torch.zeros(1_000, 1_000)
    rotated = torch.cat([torch.rand(500, 2) * 300, torch.rand(500, 2) * 60, torch.randn(500, 1)], 1)
    corners = torch.rand(500, 1, 2) * 300
    square = torch.tensor([[0.0, 0.0], [50.0, 0.0], [50.0, 50.0], [0.0, 50.0]])
    quadrilaterals = (corners + square + torch.rand(500, 4, 2) * 9).flatten(1)
    half_scores = torch.rand(500)
    order = half_scores.argsort(descending=True)
    labels, pairs = torch.zeros(0, dtype=torch.int), torch.zeros(500, 500)
    yield "nms", "10,000 boxes", lambda e: e.nms(many, scores, 0.5, 0)
    yield (
        "softnms",
        "1,000 boxes",
        lambda e: e.softnms(few, fewer_scores, torch.empty(1_000, 5), 0.3, 0.5, 1e-3, 1, 0),
    )
    yield "nms_match", "1,000 boxes", lambda e: e.nms_match(torch.cat([few, fewer_scores[:, None]], 1), 0.5)
    yield "bbox_overlaps", "1,000 x 1,000 boxes", lambda e: e.bbox_overlaps(few, few, overlaps, 0, False, 0)
    yield (
        "box_iou_rotated",
        "500 x 500 boxes",
        lambda e: e.box_iou_rotated(rotated, rotated, pairs.flatten(), 0, False),
    )
    yield (
        "box_iou_quadri",
        "500 x 500 boxes",
        lambda e: e.box_iou_quadri(quadrilaterals, quadrilaterals, pairs.flatten(), 0, False),
    )
    yield (
        "nms_rotated",
        "500 boxes",
        lambda e: e.nms_rotated(rotated, half_scores, order, rotated[order], labels, 0.3, 0),
    )
    yield (
        "nms_quadri",
        "500 boxes",
        lambda e: e.nms_quadri(quadrilaterals, half_scores, order, quadrilaterals[order], 0.3, 0),
    )


def points() -> Iterator[tuple[str, str, Call]]:
    cloud = torch.rand(100_000, 4) * torch.tensor([70.0, 80.0, 4.0, 1.0]) - torch.tensor(
        [0.0, 40.0, 3.0, 0.0]
    )
    voxel, bounds = torch.tensor([0.16, 0.16, 4.0]), torch.tensor([0.0, -39.68, -3.0, 69.12, 39.68, 1.0])
    places = torch.zeros(100_000, 3, dtype=torch.int)
    size = "100,000 points"
    yield (
        "dynamic_voxelize_forward",
        size,
        lambda e: e.dynamic_voxelize_forward(cloud, voxel, bounds, places, 3),
    )

    def hard_voxelize(extension: ModuleType) -> None:
        outputs = torch.zeros(20_000, 32, 4), torch.zeros(20_000, 3, dtype=torch.int)
        counts, number = torch.zeros(20_000, dtype=torch.int), torch.zeros((), dtype=torch.long)
        extension.hard_voxelize_forward(cloud, voxel, bounds, *outputs, counts, number, 32, 20_000, 3, True)

    yield "hard_voxelize_forward", size, hard_voxelize
    solids = torch.rand(50, 7) * torch.tensor([60.0, 60.0, 2.0, 5.0, 3.0, 3.0, 3.0])
    inside = torch.zeros(50, 100_000, dtype=torch.int)
    yield (
        "points_in_boxes_cpu_forward",
        f"{size}, 50 boxes",
        lambda e: e.points_in_boxes_cpu_forward(solids, cloud[:, :3].contiguous(), inside),
    )


def segmentation() -> Iterator[tuple[str, str, Call]]:
    masks, pairs = torch.randn(1, 15 * 15, 8, 8), torch.zeros(1, 64, 8, 8)
    settings = (0, 1, 8, 8, 15, 15, 7, 7)
    yield "psamask_forward", "8 x 8, masks of 15 x 15", lambda e: e.psamask_forward(masks, pairs, *settings)
    yield "psamask_backward", "8 x 8, masks of 15 x 15", lambda e: e.psamask_backward(pairs, masks, *settings)
    kernels = torch.zeros(200, 200, dtype=torch.int)
    kernels[10::20, 10::20] = torch.arange(1, 101).view(10, 10).int()
    levels = (torch.rand(5, 200, 200) < 0.95).to(torch.uint8)
    yield "contour_expand", "5 kernels of 200 x 200", lambda e: e.contour_expand(levels, kernels, 0, 100)
    arguments = (
        torch.rand(200, 200),
        levels[0] > 0,
        torch.rand(200, 200, 4),
        kernels,
        (kernels > 0).to(torch.uint8),
    )
    yield "pixel_group", "200 x 200, 100 kernels", lambda e: e.pixel_group(*arguments, 101, 5.0)
