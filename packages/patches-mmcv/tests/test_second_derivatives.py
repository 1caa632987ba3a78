"""A second derivative that a replaced autograd function does not have is an error, never a wrong number."""

from __future__ import annotations

import importlib.util

import pytest

torch = pytest.importorskip("torch")
if importlib.util.find_spec("mmcv") is None:
    pytest.skip("mmcv is not installed in this environment", allow_module_level=True)

# Upstream's own warnings, about torch and pkg_resources, are not what is tested here.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

import mmcv_patches  # noqa: E402
from patcher_core import Patcher, PatchStatus  # noqa: E402


def deformable_attention(ops, t):
    shapes, start = torch.tensor([[2, 3]]), torch.tensor([0])
    value, locations, weights = t(1, 6, 1, 2), t(1, 2, 1, 1, 2, 2), t(1, 2, 1, 1, 2)
    function = ops.multi_scale_deform_attn.MultiScaleDeformableAttnFunction
    return function.apply(value, shapes, start, locations, weights, 64)


def convolution(ops, t):
    return ops.deform_conv2d(t(1, 2, 4, 4), t(1, 18, 4, 4), t(2, 2, 3, 3), 1, 1)


def modulated_convolution(ops, t):
    return ops.modulated_deform_conv2d(
        t(1, 2, 4, 4), t(1, 18, 4, 4), t(1, 9, 4, 4), t(2, 2, 3, 3), None, 1, 1
    )


def focal_loss(ops, t):
    return ops.sigmoid_focal_loss(t(3, 4), torch.tensor([0, 4, 1]))


def carafe(ops, t):
    return ops.carafe(t(1, 2, 3, 3), t(1, 9, 6, 6), 3, 1, 2)


def carafe_naive(ops, t):
    return ops.carafe_naive(t(1, 2, 3, 3), t(1, 9, 6, 6), 3, 1, 2)


def gather(ops, t):
    return ops.gather_points(t(1, 2, 5), torch.tensor([[0, 3]], dtype=torch.int32))


def group(ops, t):
    return ops.grouping_operation(t(1, 2, 5), torch.tensor([[[0, 3]]], dtype=torch.int32))


def interpolate(ops, t):
    return ops.three_interpolate(
        t(1, 2, 5), torch.tensor([[[0, 3, 1]]], dtype=torch.int32), torch.rand(1, 1, 3)
    )


#: Each case with the class, below mmcv.ops, whose backward it runs.
CASES = {
    deformable_attention: "multi_scale_deform_attn.MultiScaleDeformableAttnFunction",
    convolution: "deform_conv.DeformConv2dFunction",
    modulated_convolution: "modulated_deform_conv.ModulatedDeformConv2dFunction",
    focal_loss: "focal_loss.SigmoidFocalLossFunction",
    carafe: "carafe.CARAFEFunction",
    carafe_naive: "carafe.CARAFENaiveFunction",
    gather: "gather_points.GatherPoints",
    group: "group_points.GroupingOperation",
    interpolate: "three_interpolate.ThreeInterpolate",
}


@pytest.fixture(scope="module")
def patcher():
    with Patcher(backend="portable").add(*mmcv_patches.ALL, options={"force": True}) as applied:
        yield applied


def test_every_backward_that_the_set_replaces_is_among_the_cases(patcher):
    replaced = {result.name for result in patcher.report if result.name.endswith(".backward")}
    assert replaced == {f"mmcv.ops.{name}.backward" for name in CASES.values()}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_a_second_derivative_is_refused(patcher, case):
    import mmcv.ops

    name = f"mmcv.ops.{CASES[case]}.backward"
    if not any(result.name == name and result.status is PatchStatus.APPLIED for result in patcher.report):
        pytest.skip("this mmcv's own backward stays")
    inputs = []

    def tensor(*shape):
        inputs.append(torch.rand(shape).requires_grad_())
        return inputs[-1]

    output = case(mmcv.ops, tensor)
    first = torch.autograd.grad((output * output).sum(), inputs, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        sum((gradient * gradient).sum() for gradient in first).backward()
