"""A wrong replacement of any function that the set replaces does not pass: faults planted in each are found."""

from __future__ import annotations

import importlib
import importlib.util

import pytest

torch = pytest.importorskip("torch")
for needed in ("patcher_testing", "mmcv"):
    if importlib.util.find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed in this environment", allow_module_level=True)

# Upstream's own warnings, about torch and pkg_resources, are not what is tested here.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

import mmcv_patches  # noqa: E402
from patcher_core import Patcher  # noqa: E402
from patcher_testing.numerics import assert_faults_are_caught, assert_same_numerics  # noqa: E402

SHAPES = torch.tensor([[4, 5], [2, 3]])
STARTS = torch.tensor([0, 20])


@pytest.fixture(scope="module")
def ops():
    with Patcher(backend="portable").add(*mmcv_patches.ALL, options={"force": True}):
        yield importlib.import_module("mmcv.ops")


def deformable_attention(ops):
    apply = ops.multi_scale_deform_attn.MultiScaleDeformableAttnFunction.apply
    return lambda value, locations, weights: apply(value, SHAPES, STARTS, locations, weights, 64)


def upstreams_attention(ops):
    formula = ops.multi_scale_deform_attn.multi_scale_deformable_attn_pytorch
    return lambda value, locations, weights: formula(value, SHAPES, locations, weights)


def attention_inputs(draw):
    batch, channels = draw.batch(), draw.size()
    return (
        draw.tensor(batch, 26, 2, channels),
        draw.uniform(0.1, 0.9, batch, 3, 2, 2, 2, 2),
        draw.uniform(0, 1, batch, 3, 2, 2, 2),
    )


def convolution(ops):
    return lambda image, offset, weight: ops.deform_conv2d(image, offset, weight, 1, 1)


def convolution_inputs(draw):
    batch, channels = draw.batch(), draw.size(at_most=4)
    return draw.tensor(batch, channels, 5, 6), draw.tensor(batch, 18, 5, 6), draw.tensor(3, channels, 3, 3)


def modulated_convolution(ops):
    return lambda image, offset, mask, weight, bias: ops.modulated_deform_conv2d(
        image, offset, mask, weight, bias, 1, 1
    )


def modulated_inputs(draw):
    image, offset, weight = convolution_inputs(draw)
    return image, offset, draw.uniform(0, 1, len(image), 9, 5, 6), weight, draw.tensor(3)


def focal_loss(ops):
    target = torch.tensor([2, 0, 1])
    return lambda logits: ops.sigmoid_focal_loss(logits, target[: len(logits)], 2.0, 0.25, None, "none")


def focal_inputs(draw):
    return (draw.tensor(draw.batch(), draw.size() + 1),)


def sparse_convolution(ops):
    positions = torch.randperm(60)[:20]
    cells = torch.stack([0 * positions, positions // 20, positions // 5 % 4, positions % 5], 1).int()

    def run(features, weight):
        layer = ops.SubMConv3d(features.shape[1], 3, 3, bias=False)
        del layer.weight
        layer.weight = weight
        return layer(ops.SparseConvTensor(features.contiguous(), cells, [3, 4, 5], 1)).features

    return run


def sparse_inputs(draw):
    channels = draw.size(at_most=4)
    return draw.tensor(20, channels), draw.tensor(3, 3, 3, channels, 3)


def test_deformable_attention_equals_upstreams_formula_in_every_case(ops):
    options = {"dtypes": (torch.float32,)}
    assert_same_numerics(deformable_attention(ops), upstreams_attention(ops), attention_inputs, **options)


@pytest.mark.parametrize(
    ("build", "inputs"),
    [
        (deformable_attention, attention_inputs),
        (convolution, convolution_inputs),
        (modulated_convolution, modulated_inputs),
        (focal_loss, focal_inputs),
        (sparse_convolution, sparse_inputs),
    ],
    ids=[
        "MultiScaleDeformableAttention",
        "DeformConv",
        "ModulatedDeformConv",
        "SigmoidFocalLoss",
        "SparseConv3D",
    ],
)
def test_a_wrong_replacement_is_caught(ops, build, inputs):
    assert_faults_are_caught(build(ops), inputs, dtypes=(torch.float32,))


def test_a_wrong_voxelization_is_caught(ops):
    def voxelize(points):
        return ops.voxelization(points, [1.0, 1.0, 4.0], [-2.0, -2.0, -2.0, 2.0, 2.0, 2.0], 4, 40)

    def inputs(draw):
        return (draw.tensor(draw.batch() * 20, 3 + draw.size(), grad=False),)

    assert_faults_are_caught(voxelize, inputs, dtypes=(torch.float32,), gradients=False)
