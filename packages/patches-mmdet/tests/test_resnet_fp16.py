"""ResNetFP16: the network of upstream in half precision, its outputs in single precision."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch")

from mmdet_patches import ResNetAddRelu, ResNetFP16, ResNetMaxPool  # noqa: E402
from patcher_core import Patcher, PatchStatus  # noqa: E402

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
    assert distance(*flat) < 2.0**-4


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
