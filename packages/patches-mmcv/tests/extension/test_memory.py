"""Inputs of four megapixels and of 100,000 points go through each of these operators in 4 GB."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("torch")

SCRIPT = """
import json, resource
import torch
from mmcv_patches.extension import build_extension_module

torch.set_num_threads(1)
e, none, side, peaks = build_extension_module(), torch.empty(0), 2048, {}


def image(channels, size=side):
    return torch.randn(1, channels, size, size)


def measure(function):
    function()
    peaks[function.__name__] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def focal_losses():
    logits, target = torch.randn(side * side // 80, 80), torch.randint(0, 80, (side * side // 80,))
    output, row = torch.empty_like(logits), torch.empty(len(target))
    e.sigmoid_focal_loss_forward(logits, target, none, output, 2.0, 0.25)
    e.sigmoid_focal_loss_backward(logits, target, none, output, 2.0, 0.25)
    e.softmax_focal_loss_forward(logits.softmax(1), target, none, row, 2.0, 0.25)
    e.softmax_focal_loss_backward(logits.softmax(1), target, none, row, output, 2.0, 0.25)


def carafe():
    features, masks, output = image(2, side // 2), torch.rand(1, 9, side, side), torch.zeros(1, 2, side, side)
    e.carafe_naive_forward(features, masks, output, 3, 1, 2)
    e.carafe_naive_backward(output, features, masks, torch.zeros_like(features), torch.zeros_like(masks), 3, 1, 2)


def resampling():
    taps, pixels = torch.rand(4), image(3)
    e.upfirdn2d(pixels, taps[None] * taps[:, None], 2, 2, 1, 1, 2, 1, 2, 1, False, 4.0)
    e.filtered_lrelu(pixels, taps, taps, torch.rand(3), none, 2, 2, 3, 3, 3, 3, 0, 0, 1.4, 0.2, 0.5, False, True)


def activations():
    pixels, bias = image(3), torch.rand(3)
    e.bias_act(pixels, bias, pixels, none, none, 1, 1, 9, 0.0, 1.0, -1.0)
    e.fused_bias_leakyrelu(pixels, bias, none, 3, 0, 0.2, 1.4)


def batch_norm():
    pixels, mean, var = image(3).flatten(2), torch.zeros(3), torch.zeros(3)
    e.sync_bn_forward_mean(pixels, mean)
    e.sync_bn_forward_var(pixels, mean, var)


def masked_convolution():
    rows, columns = (torch.rand(side, side) < 0.3).nonzero(as_tuple=True)
    e.masked_im2col_forward(image(3), rows, columns, torch.zeros(27, len(rows)), 3, 3, 1, 1)


def correlation():
    e.correlation_forward(image(2), image(2), torch.zeros(1, 3, 3, side, side), 1, 1, 3, 3, 0, 0, 1, 1, 1, 1, 1, 1)


def corner_pooling():
    e.left_pool_backward(image(3), image(3))


def text():
    labels = torch.zeros(side, side, dtype=torch.int)
    labels[::32, ::32] = torch.arange(1, 4097).view(64, 64).int()
    everywhere = torch.ones(2, side, side, dtype=torch.uint8)
    e.contour_expand(everywhere, labels, 0, 4096)
    kernels = (labels > 0).to(torch.uint8)
    e.pixel_group(torch.rand(side, side), everywhere[0] > 0, torch.zeros(side, side, 4), labels, kernels, 4097, 1.0)


def points():
    cloud, voxel = torch.rand(100_000, 4) * 50, torch.tensor([0.2, 0.2, 50.0])
    bounds, places = torch.tensor([0.0, 0, 0, 50, 50, 50]), torch.zeros(100_000, 3, dtype=torch.int)
    e.dynamic_voxelize_forward(cloud, voxel, bounds, places, 3)
    e.dynamic_point_to_voxel_forward(cloud, places, "max")
    few, squares = torch.rand(1, 1000, 3) * 50, torch.zeros(1, 1000, 3)
    e.three_nn_forward(few, cloud[None, :, :3].contiguous(), squares, squares.int(), 1, 1000, 100_000)


for case in (focal_losses, carafe, resampling, activations, batch_norm, masked_convolution, correlation,
             corner_pooling, text, points):
    measure(case)
print(json.dumps(peaks))
"""


def test_every_peak_is_below_4_gb() -> None:
    """The peak of a process only grows: the last one holds for all operators before it."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SCRIPT)], capture_output=True, text=True, env=environment
    )
    assert result.returncode == 0, result.stderr
    peaks = json.loads(result.stdout)
    print(peaks)
    assert len(peaks) == 10 and max(peaks.values()) < 4
