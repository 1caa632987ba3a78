"""ResNetFP16: the network of upstream in half precision, its outputs in single precision."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch")

from mmdet_patches import ResNetAddRelu, ResNetFP16, ResNetMaxPool  # noqa: E402
from patcher_core import Patcher, PatchStatus  # noqa: E402
from patcher_testing.numerics import Tolerance, assert_faults_are_caught, assert_same_numerics  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's own, on checkpoints; mmdet's, on registries

TORCH = tuple(map(int, torch.__version__.split(".")[:2]))
needs_halves = pytest.mark.skipif(
    TORCH < (2, 4), reason="torch has float16 kernels for convolutions on the CPU since 2.4"
)


def distance(found, expected):
    """Of two tensors, relative to the length of the expected one."""
    return ((found.double() - expected.double()).norm() / expected.double().norm()).item()


@needs_halves
def test_outputs_are_float32_and_gradients_are_those_of_the_unpatched_network(
    make_resnet, run_resnet, resnet_changes
) -> None:
    network, images = make_resnet(**resnet_changes), torch.randn(2, 3, 64, 64)
    expected = run_resnet(copy.deepcopy(network), images)
    with Patcher().add(ResNetFP16):
        found = run_resnet(network, images, loss_scale=256.0)
    for feature, expected_feature in zip(found[0], expected[0]):
        assert feature.dtype == torch.float32
        # 2**-11 a rounding, which a hundred layers add up to some ten times that
        assert 0 < distance(feature, expected_feature) < 2.0**-6
    flat = [torch.cat([gradient.flatten() for gradient in one[1].values()]) for one in (found, expected)]
    assert all(gradient.dtype == torch.float32 for gradient in found[1].values())
    # A rounded value beside a kink moves its gradient to another element, and statistics of a few values amplify
    # what is rounded: over 15 seeds up to 0.15. The network of the next test has no kinks.
    assert distance(*flat) < 2.0**-2


@needs_halves
def test_a_wrong_wrapper_would_be_noticed(make_resnet) -> None:
    """The network has no kinks, so that a rounded value moves no gradient to another element."""
    network = make_resnet(depth=18, num_stages=2, strides=(1, 2), dilations=(1, 1), out_indices=(0, 1))
    network.maxpool = torch.nn.AvgPool2d(3, 2, 1)
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.constant_(module.bias, 3.0)

    def call(forward):
        return lambda images: forward(network, images)

    def inputs(draw):
        return (draw.tensor(draw.batch(), 3, 32, 8 * draw.size()),)

    original = type(network).forward
    with Patcher().add(ResNetFP16):
        replacement = type(network).forward
    half = Tolerance(2.0**-5, 2.0**-6, "2**-11 a rounding, over ten layers forward and backward")
    options = {"dtypes": [torch.float32], "tolerances": {torch.float32: half}}
    assert_same_numerics(call(replacement), call(original), inputs, **options)
    assert_faults_are_caught(call(original), inputs, **options)


@needs_halves
def test_features_are_those_of_the_network_under_autocast(make_resnet) -> None:
    network, images = make_resnet(depth=18), torch.randn(2, 3, 64, 64)
    network.eval()  # mmdet's gives nothing back
    with torch.no_grad():
        with torch.autocast("cpu", dtype=torch.float16):
            expected = network(images)
        with Patcher().add(ResNetFP16):
            found = network(images)
    for feature, expected_feature in zip(found, expected):
        assert expected_feature.dtype == torch.float16 and feature.dtype == torch.float32
        assert torch.equal(feature, expected_feature.float())


@needs_halves
def test_convolutions_run_in_half_precision(make_resnet) -> None:
    network, seen = make_resnet(depth=18), set()
    network.layer1[0].conv1.register_forward_hook(lambda *call: seen.add(call[-1].dtype))
    with Patcher().add(ResNetFP16):
        network(torch.randn(2, 3, 64, 64))
    assert seen == {torch.float16}


def test_restored_it_computes_as_before(make_resnet, run_resnet) -> None:
    network, images = make_resnet(depth=18), torch.randn(2, 3, 64, 64)
    expected = run_resnet(network, images)
    with Patcher().add(ResNetFP16):
        pass
    torch.testing.assert_close(run_resnet(network, images), expected, rtol=0, atol=0)


@pytest.mark.parametrize("group", [ResNetAddRelu, ResNetMaxPool])
def test_what_needs_an_npu_is_skipped_visibly_elsewhere(group) -> None:
    patcher = Patcher().add(group).apply()
    (result,) = patcher.report.results
    assert result.status is PatchStatus.SKIPPED
    assert "needs npu" in result.reason
    assert not result.quiet
    patcher.restore()
