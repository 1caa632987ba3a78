"""Deformable convolution on the simulated NPU: the values and gradients of the CPU, from the intended operators."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.simulated_npu(group="mmcv"), pytest.mark.usefixtures("random_seed")]

OPERATORS = {"deform_conv2d": "deformable_conv2d", "modulated_deform_conv2d": "modulated_deformable_conv2d"}
modulated = "modulated_deform_conv2d"


def random_inputs(
    name, channels=64, outputs=64, kernel=3, groups=1, deform_groups=1, dtype=torch.float32, batch=2
):
    out, taps = (5, 4), deform_groups * kernel * kernel
    size = out[0] + kernel - 1, out[1] + kernel - 1
    # Away from whole numbers, where the slope of a sample jumps: float32 and half precision round to either side.
    cell = torch.randn(batch, 2 * taps, *out).floor()
    tensors = [
        torch.randn(batch, channels, *size),
        cell + 0.15 + 0.7 * torch.rand_like(cell),
        torch.rand(batch, taps, *out),
        torch.randn(outputs, channels // groups, kernel, kernel) / (channels * kernel * kernel) ** 0.5,
        torch.randn(outputs),
    ]
    if name != modulated:
        del tensors[4], tensors[2]
    return [tensor.to(dtype).requires_grad_() for tensor in tensors], (1, 0, 1, groups, deform_groups)


def compare(ops, simulated_npu, name, tensors, settings, tolerance=1e-3):
    """Both devices; gives back what was recorded on the NPU."""
    on_npu = [tensor.detach().npu().requires_grad_() for tensor in tensors]
    function = getattr(ops, name)
    expected = function(*tensors, *settings)
    weight = torch.randn_like(expected)
    with simulated_npu.record_operators() as recorded:
        output = function(*on_npu, *settings)
        gradients = torch.autograd.grad(output, on_npu, weight.npu())
    assert output.dtype is expected.dtype
    for ours, theirs in zip(
        [output, *gradients], [expected, *torch.autograd.grad(expected, tensors, weight)]
    ):
        torch.testing.assert_close(ours.cpu(), theirs, rtol=tolerance, atol=tolerance)
    return recorded


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("name", OPERATORS)
def test_values_gradients_and_bias_with_the_operator_of_mx_driving(
    mmcv_ops, simulated_npu, name, groups
) -> None:
    recorded = compare(mmcv_ops, simulated_npu, name, *random_inputs(name, groups=groups))
    recorded.assert_ran(OPERATORS[name], times=1)
    recorded.assert_ran(f"{OPERATORS[name]}_backward", times=1)


def test_the_first_version_takes_any_channels_and_kernel(mmcv_ops, simulated_npu) -> None:
    inputs = random_inputs("deform_conv2d", channels=6, outputs=5, kernel=2)
    compare(mmcv_ops, simulated_npu, "deform_conv2d", *inputs).assert_ran("deformable_conv2d", times=1)


@pytest.mark.parametrize(
    ("name", "limits"),
    [
        (modulated, {"kernel": 1}),
        (modulated, {"channels": 32}),
        (modulated, {"outputs": 32}),
        (modulated, {"deform_groups": 2}),
        (modulated, {"dtype": torch.float64}),
        ("deform_conv2d", {"deform_groups": 2}),
        ("deform_conv2d", {"dtype": torch.float64}),
    ],
    ids=str,
)
def test_what_mx_driving_does_not_take_runs_in_plain_pytorch(mmcv_ops, simulated_npu, name, limits) -> None:
    recorded = compare(mmcv_ops, simulated_npu, name, *random_inputs(name, **limits))
    recorded.assert_did_not_run(OPERATORS[name])
    recorded.assert_did_not_run(f"{OPERATORS[name]}_backward")


@pytest.mark.parametrize("name", OPERATORS)
def test_an_empty_batch_and_a_wrong_shape_never_reach_the_operator(mmcv_ops, simulated_npu, name) -> None:
    tensors, settings = random_inputs(name, batch=0)
    compare(mmcv_ops, simulated_npu, name, tensors, settings).assert_did_not_run(OPERATORS[name])
    with pytest.raises(ValueError, match="Expected 4D tensor"):
        getattr(mmcv_ops, name)(tensors[0].npu()[:, 0], *(tensor.npu() for tensor in tensors[1:]), *settings)


@pytest.mark.parametrize("name", OPERATORS)
def test_half_precision_offsets_run_on_mx_driving_in_float32(mmcv_ops, simulated_npu, name) -> None:
    tensors, settings = random_inputs(name, dtype=torch.float16)
    recorded = compare(mmcv_ops, simulated_npu, name, tensors, settings, tolerance=5e-2)
    recorded.assert_ran(OPERATORS[name], times=1)


@pytest.mark.parametrize("name", OPERATORS)
def test_a_second_derivative_is_refused(mmcv_ops, simulated_npu, name) -> None:
    tensors, settings = random_inputs(name)
    on_npu = [tensor.detach().npu().requires_grad_() for tensor in tensors]
    output = getattr(mmcv_ops, name)(*on_npu, *settings)
    first = torch.autograd.grad((output * output).sum(), on_npu, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        sum((gradient * gradient).sum() for gradient in first).backward()


@pytest.mark.parametrize(
    ("kind", "operator"), [("DCN", "deformable_conv2d"), ("DCNv2", "modulated_deformable_conv2d")]
)
def test_what_the_registry_builds_runs_on_mx_driving(mmcv_ops, simulated_npu, kind, operator) -> None:
    from mmengine.registry import MODELS

    layer = MODELS.build(
        {"type": kind, "in_channels": 64, "out_channels": 64, "kernel_size": 3, "padding": 1}
    )
    torch.nn.init.normal_(layer.conv_offset.weight, std=0.1)
    image = torch.randn(1, 64, 5, 6)
    expected = layer(image)
    with simulated_npu.record_operators() as recorded:
        found = layer.npu()(image.npu())
    recorded.assert_ran(operator, times=1)
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-3, atol=1e-3)
