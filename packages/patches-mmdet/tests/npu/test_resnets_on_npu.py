"""The ResNet patches on the simulated NPU: values and gradients of the CPU, from the intended operators."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch")

from torch.utils._pytree import tree_flatten  # noqa: E402

import mmdet_patches  # noqa: E402
from patcher_core import Patcher, PatchStatus, default_patcher  # noqa: E402
from patcher_testing.numerics import assert_faults_are_caught, assert_same_numerics  # noqa: E402

pytestmark = [
    pytest.mark.simulated_npu,
    pytest.mark.filterwarnings("ignore"),  # mmcv's, mx_driving's and torch's own
]

ADD_RELU, MAX_POOL = "mx_driving.npu_add_relu", "mx_driving.npu_max_pool2d"


@pytest.fixture
def patched(simulated_npu):
    patcher = Patcher().add(*mmdet_patches.DEFAULT).disable("transfer_to_npu").apply()
    applied = {result.group for result in patcher.report.results if result.status is PatchStatus.APPLIED}
    assert applied == {"resnet_add_relu", "resnet_maxpool"}
    yield patcher
    patcher.restore()


def count(recorded, name):
    return sum(call.name == name for call in recorded.calls)


def assert_close(found, expected):
    """Up to the rounding of sums: of a small element, that of the large terms which cancelled in it."""
    found_leaves, found_structure = tree_flatten(found)
    expected_leaves, expected_structure = tree_flatten(expected)
    assert found_structure == expected_structure
    for one_found, one_expected in zip(found_leaves, expected_leaves):
        largest = float(one_expected.detach().abs().max())
        torch.testing.assert_close(one_found, one_expected, rtol=1e-4, atol=1e-5 * max(1.0, largest))


def test_a_training_step_equals_that_of_the_unpatched_network_on_the_cpu(
    simulated_npu, make_resnet, run_resnet, resnet_changes
) -> None:
    network, images = make_resnet(**resnet_changes), torch.randn(2, 3, 64, 64)
    on_npu = copy.deepcopy(network).npu()
    expected = run_resnet(network, images)
    patcher = Patcher().add(*mmdet_patches.DEFAULT).disable("transfer_to_npu")
    with patcher, simulated_npu.record_operators() as recorded:
        features, gradients = run_resnet(on_npu, images.npu())
    assert_close(features, expected[0])
    assert_close(gradients, expected[1])
    assert_close(dict(on_npu.cpu().named_buffers()), dict(network.named_buffers()))
    blocks = sum(network.stage_blocks)
    assert count(recorded, ADD_RELU) == (2 * blocks if resnet_changes.get("with_cp") else blocks)
    assert count(recorded, MAX_POOL) == 0  # a gradient is asked for, and the operator has none


def test_prediction_equals_that_of_the_unpatched_network_on_the_cpu(
    patched, simulated_npu, make_resnet, resnet_changes
) -> None:
    network, images = make_resnet(training=False, **resnet_changes), torch.randn(2, 3, 64, 80)
    with torch.no_grad():
        expected = network(images)
        with simulated_npu.record_operators() as recorded:
            found = network.npu()(images.npu())
    assert_close([feature.cpu() for feature in found], list(expected))
    assert count(recorded, ADD_RELU) == sum(network.stage_blocks)
    assert count(recorded, MAX_POOL) == 1


def test_a_frozen_stem_is_pooled_by_the_operator_in_training(
    patched, simulated_npu, make_resnet, run_resnet
) -> None:
    network, images = make_resnet(depth=18, frozen_stages=0), torch.randn(2, 3, 64, 64)
    on_npu = copy.deepcopy(network).npu()
    losses = [sum(feature.square().mean() for feature in network(images))]
    with simulated_npu.record_operators() as recorded:
        losses.append(sum(feature.square().mean() for feature in on_npu(images.npu())))
    assert count(recorded, MAX_POOL) == 1
    for loss in losses:
        loss.backward()
    assert_close(losses[1].cpu(), losses[0])
    trained = {name: p for name, p in network.named_parameters() if p.requires_grad}
    assert "layer1.0.conv1.weight" in trained and "conv1.weight" not in trained
    for name, parameter in on_npu.named_parameters():
        if parameter.requires_grad:
            assert_close(parameter.grad.cpu(), trained[name].grad)


def poolings():
    return {
        "average": torch.nn.AvgPool2d(3, 2, 1),
        "a larger window": torch.nn.MaxPool2d(5, 2, 2),
        "no padding": torch.nn.MaxPool2d(3, 2, 0),
        "ceiling": torch.nn.MaxPool2d(3, 2, 1, ceil_mode=True),
        "dilation": torch.nn.MaxPool2d(3, 2, 1, dilation=2),
        "none": torch.nn.Identity(),
    }


@pytest.mark.parametrize("kind", poolings())
def test_a_pooling_of_another_kind_keeps_to_itself(patched, simulated_npu, make_resnet, kind) -> None:
    network, images = make_resnet(training=False, depth=18), torch.randn(1, 3, 64, 64)
    network.maxpool = poolings()[kind]
    with torch.no_grad(), simulated_npu.record_operators() as recorded:
        expected = network(images)
        found = network.npu()(images.npu())
    assert_close([feature.cpu() for feature in found], list(expected))
    assert count(recorded, MAX_POOL) == 0


@pytest.mark.parametrize("channels, dtype", [(12, torch.float32), (24, torch.float16), (16, torch.bfloat16)])
def test_what_the_compiled_pooling_refuses_is_pooled_by_torch(
    patched, simulated_npu, make_resnet, channels, dtype
) -> None:
    network = make_resnet(training=False, depth=18, stem_channels=channels).npu().to(dtype)
    with torch.no_grad(), simulated_npu.record_operators() as recorded:
        features = network(torch.randn(1, 3, 64, 64).npu().to(dtype))
    assert [feature.dtype for feature in features] == [dtype] * 4
    assert count(recorded, MAX_POOL) == 0


def test_hooks_on_the_activation_and_on_the_pooling_are_called(patched, simulated_npu, make_resnet) -> None:
    network, seen = make_resnet(training=False, depth=18).npu(), []
    for module in (network.maxpool, network.layer1[0].relu):
        module.register_forward_hook(lambda module, _, output: seen.append(type(module)))
    with torch.no_grad(), simulated_npu.record_operators() as recorded:
        network(torch.randn(1, 3, 64, 64).npu())
    assert seen == [torch.nn.MaxPool2d, torch.nn.ReLU, torch.nn.ReLU]
    assert count(recorded, MAX_POOL) == 0
    assert count(recorded, ADD_RELU) == 7


def test_another_activation_is_left_alone(patched, simulated_npu, make_resnet) -> None:
    network, images = make_resnet(training=False, depth=18), torch.randn(1, 3, 64, 64)
    network.layer2[0].relu = torch.nn.SiLU()
    with torch.no_grad():
        expected = network(images)
        with simulated_npu.record_operators() as recorded:
            found = network.npu()(images.npu())
    assert_close([feature.cpu() for feature in found], list(expected))
    assert count(recorded, ADD_RELU) == 7


def test_a_large_feature_map_goes_through_the_compiled_operator(patched, simulated_npu, make_resnet) -> None:
    block = make_resnet(depth=18).layer1[0]
    on_npu = copy.deepcopy(block).npu()
    images = torch.randn(1, 8, 512, 512)
    inputs = [images.requires_grad_(), images.detach().npu().requires_grad_()]
    weights = torch.randn(images.shape)
    expected = block(inputs[0])
    with simulated_npu.record_operators() as recorded:
        found = on_npu(inputs[1])
    assert found.numel() >= 2_000_000
    assert count(recorded, "mx_driving::npu_add_relu") == 1
    assert_close(found.cpu(), expected)
    (expected * weights).sum().backward()
    (found * weights.npu()).sum().backward()
    assert_close(inputs[1].grad.cpu(), inputs[0].grad)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_under_autocast_it_equals_the_unpatched_network(simulated_npu, make_resnet, dtype) -> None:
    network, images = make_resnet(training=False, depth=50).npu(), torch.randn(2, 3, 64, 64).npu()

    def predict():
        with torch.no_grad(), torch.autocast("npu", dtype=dtype):
            return [feature.cpu() for feature in network(images)]

    expected = predict()
    with Patcher().add(*mmdet_patches.DEFAULT).disable("transfer_to_npu"):
        found = predict()
    assert {feature.dtype for feature in expected} == {dtype}
    torch.testing.assert_close(found, expected, rtol=2.0**-6, atol=2.0**-6)


def test_images_on_the_cpu_are_left_to_upstream(patched, simulated_npu, make_resnet) -> None:
    with simulated_npu.record_operators() as recorded:
        make_resnet(depth=18)(torch.randn(2, 3, 64, 64))
    assert not recorded.calls


@pytest.mark.parametrize("name", ["ResNeXt", "RegNet", "ResNetV1d", "TridentResNet", "Res2Net"])
def test_its_relatives_predict_the_same(patched, simulated_npu, name) -> None:
    from mmdet.registry import MODELS

    own = {
        "ResNeXt": {"depth": 50, "groups": 4, "base_width": 4},
        "RegNet": {"arch": "regnetx_400mf"},
        "ResNetV1d": {"depth": 18},
        "TridentResNet": {
            "depth": 18 + 32,
            "num_branch": 3,
            "test_branch_idx": 1,
            "trident_dilations": (1, 2, 3),
            "num_stages": 3,
            "strides": (1, 2, 2),
            "dilations": (1, 1, 1),
            "out_indices": (2,),
        },
        "Res2Net": {"depth": 50, "scales": 4, "base_width": 26},
    }
    network = MODELS.build({"type": name, **own[name]})
    network.eval()
    for parameter in network.parameters():
        if parameter.dim() > 1:
            torch.nn.init.kaiming_normal_(parameter)  # TridentResNet's are whatever was in the memory
    images = torch.randn(1, 3, 64, 64)
    with torch.no_grad():
        expected = network(images)
        found = network.npu()(images.npu())
    assert_close([feature.cpu() for feature in found], list(expected))


def test_a_block_is_compiled_without_a_break(patched, make_resnet) -> None:
    network, images = make_resnet(training=False, depth=18).npu(), torch.randn(1, 3, 64, 64).npu()
    with torch.no_grad():
        expected = [feature.cpu() for feature in network(images)]
        compiled = torch.compile(network, backend="eager", fullgraph=True)
        found = [feature.cpu() for feature in compiled(images)]
    assert_close(found, expected)


def test_half_precision_is_that_of_the_device_and_outputs_are_float32(simulated_npu, make_resnet) -> None:
    network, images = make_resnet(training=False, depth=50), torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        expected, seen = network(images), []
        network.npu().layer1[0].conv1.register_forward_hook(lambda *call: seen.append(call[-1]))
        with Patcher().add(mmdet_patches.ResNetFP16).disable("transfer_to_npu"):
            found = network(images.npu())
    assert [(output.dtype, output.device.type) for output in seen] == [(torch.float16, "npu")]
    for feature, expected_feature in zip(found, expected):
        assert (feature.dtype, feature.device.type) == (torch.float32, "npu")
        assert 0 < (feature.cpu() - expected_feature).norm() / expected_feature.norm() < 2.0**-6


def test_the_default_patcher_refuses_two_patches_of_one_method(simulated_npu) -> None:
    default_patcher.disable("transfer_to_npu").add(mmdet_patches.ResNetFP16)
    with pytest.raises(ValueError, match=r"patcher.disable\('resnet_maxpool'\)"):
        default_patcher.apply()
    assert not default_patcher.is_applied
    default_patcher.disable("resnet_maxpool").apply()
    applied = {result.group for result in default_patcher.report.applied}
    default_patcher.restore()
    assert {"resnet_fp16", "resnet_add_relu"} <= applied


@pytest.mark.parametrize("depth", [18, 50])
def test_a_wrong_end_of_a_block_would_be_noticed(simulated_npu, make_resnet, depth) -> None:
    block = make_resnet(training=False, depth=depth).layer1[0]
    blocks = {"cpu": block, "npu": copy.deepcopy(block).npu()}

    def call(forward):
        return lambda x: forward(blocks[x.device.type], x)

    def inputs(draw):
        return (draw.tensor(draw.batch(), block.conv1.in_channels, 2 * draw.size(), 8),)

    original = type(block).forward
    with Patcher().add(mmdet_patches.ResNetAddRelu).disable("transfer_to_npu"):
        replacement = type(block).forward
    options = {"dtypes": [torch.float32]}
    with simulated_npu.record_operators() as recorded:
        assert_same_numerics(call(replacement), call(original), inputs, device="npu", **options)
    assert count(recorded, ADD_RELU) > 0
    assert_faults_are_caught(call(original), inputs, **options)


def test_a_wrong_pooling_would_be_noticed(simulated_npu, make_resnet) -> None:
    network = make_resnet(
        training=False, depth=18, num_stages=1, strides=(1,), dilations=(1,), out_indices=(0,)
    )
    networks = {"cpu": network, "npu": copy.deepcopy(network).npu()}

    def call(forward):
        def predict(images):
            with torch.no_grad():
                return forward(networks[images.device.type], images)

        return predict

    def inputs(draw):
        return (draw.tensor(draw.batch(), 3, 16, 8 * draw.size(), grad=False),)

    original = type(network).forward
    with Patcher().add(mmdet_patches.ResNetMaxPool).disable("transfer_to_npu"):
        replacement = type(network).forward
    options = {"dtypes": [torch.float32], "gradients": False}
    with simulated_npu.record_operators() as recorded:
        assert_same_numerics(call(replacement), call(original), inputs, device="npu", **options)
    assert count(recorded, MAX_POOL) > 0
    assert_faults_are_caught(call(original), inputs, **options)
