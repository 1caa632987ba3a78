"""Deformable attention on the simulated NPU: the values and gradients of the CPU, from the intended operators."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.simulated_npu(group="mmcv"), pytest.mark.usefixtures("random_seed")]

SHAPES = ((5, 7), (3, 4), (1, 2))
FORWARD, BACKWARD = "multi_scale_deformable_attn", "multi_scale_deformable_attn_backward"


def random_inputs(dtype=torch.float32, batch=2, queries=6, heads=2, channels=8, points=4):
    sizes = torch.tensor(SHAPES)
    starts = sizes.prod(1).cumsum(0) - sizes.prod(1)
    value = torch.randn(batch, int(sizes.prod(1).sum()), heads, channels).to(dtype)
    # Between pixels, also outside of the map: at a pixel the slope jumps, and half precision may round to either side.
    widths = sizes.flip(1)[:, None].float()
    corners = ((torch.rand(batch, queries, heads, len(SHAPES), points, 2) * 1.4 - 0.2) * widths).floor()
    locations = ((corners + 0.5 + 0.15 + 0.7 * torch.rand_like(corners)) / widths).to(dtype)
    weights = torch.rand(batch, queries, heads, len(SHAPES), points).to(dtype)
    return [value, sizes, starts, locations, weights]


def output_and_gradients(function, inputs, grad=None):
    value, sizes, starts, locations, weights = inputs
    leaves = [tensor.detach().requires_grad_() for tensor in (value, locations, weights)]
    output = function.apply(leaves[0], sizes, starts, *leaves[1:], 64)
    grad = torch.ones_like(output) if grad is None else grad.to(output)
    return [output, *torch.autograd.grad(output, leaves, grad)]


def compare(ops, simulated_npu, inputs, tolerance=1e-3):
    """Both devices; gives back what was recorded on the NPU."""
    function = ops.multi_scale_deform_attn.MultiScaleDeformableAttnFunction
    grad = torch.randn(inputs[0].shape[0], inputs[3].shape[1], inputs[0].shape[2] * inputs[0].shape[3])
    with simulated_npu.record_operators() as recorded:
        found = output_and_gradients(function, [tensor.npu() for tensor in inputs], grad)
    for ours, expected in zip(found, output_and_gradients(function, inputs, grad)):
        assert ours.dtype is expected.dtype
        torch.testing.assert_close(ours.cpu(), expected, rtol=tolerance, atol=tolerance)
    return recorded


def test_values_and_gradients_with_the_operator_of_mx_driving(mmcv_ops, simulated_npu) -> None:
    recorded = compare(mmcv_ops, simulated_npu, random_inputs())
    recorded.assert_ran(FORWARD, times=1)
    recorded.assert_ran(BACKWARD, times=1)


def test_half_precision_runs_on_mx_driving_in_float32(mmcv_ops, simulated_npu) -> None:
    recorded = compare(mmcv_ops, simulated_npu, random_inputs(torch.float16), tolerance=5e-2)
    recorded.assert_ran(FORWARD, times=1)


@pytest.mark.parametrize("limits", [{"dtype": torch.float64}, {"queries": 0}, {"batch": 0}], ids=str)
def test_what_mx_driving_does_not_take_runs_in_plain_pytorch(mmcv_ops, simulated_npu, limits) -> None:
    recorded = compare(mmcv_ops, simulated_npu, random_inputs(**limits))
    recorded.assert_did_not_run(FORWARD)
    recorded.assert_did_not_run(BACKWARD)


def test_mmcvs_module_reaches_the_operator(mmcv_ops, simulated_npu) -> None:
    """Before mmcv 2.2.0 the module itself calls the function on CUDA only."""
    layer = mmcv_ops.MultiScaleDeformableAttention(embed_dims=16, num_heads=2, num_levels=3, batch_first=True)
    torch.nn.init.normal_(layer.attention_weights.weight)
    sizes = torch.tensor(SHAPES)
    starts = sizes.prod(1).cumsum(0) - sizes.prod(1)
    queries, keys = torch.randn(1, 5, 16), torch.randn(1, int(sizes.prod(1).sum()), 16)
    places = torch.rand(1, 5, 3, 2)
    named = {"value": keys, "reference_points": places, "spatial_shapes": sizes, "level_start_index": starts}
    layer.eval()
    expected = layer(queries, **named)
    on_npu = copy.deepcopy(layer).npu()
    with simulated_npu.record_operators() as recorded:
        found = on_npu(queries.npu(), **{name: tensor.npu() for name, tensor in named.items()})
    recorded.assert_ran(FORWARD, times=1)
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-3, atol=1e-3)


def test_mmcvs_formula_is_left_for_the_operator(mmcv_ops, simulated_npu) -> None:
    formula = mmcv_ops.multi_scale_deform_attn.multi_scale_deformable_attn_pytorch
    value, sizes, _, locations, weights = random_inputs()
    leaves = [tensor.requires_grad_() for tensor in (value, locations, weights)]
    on_npu = [tensor.detach().npu().requires_grad_() for tensor in leaves]
    expected = formula(value, sizes, locations, weights)
    upstream = torch.randn_like(expected)
    with simulated_npu.record_operators() as recorded:
        found = formula(on_npu[0], sizes.npu(), *on_npu[1:])
        gradients = torch.autograd.grad(found, on_npu, upstream.npu())
    recorded.assert_ran(FORWARD, times=1)
    recorded.assert_ran(BACKWARD, times=1)
    for ours, theirs in zip(
        [found, *gradients], [expected, *torch.autograd.grad(expected, leaves, upstream)]
    ):
        torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-3, atol=1e-3)


def test_a_second_derivative_is_refused(mmcv_ops, simulated_npu) -> None:
    value, sizes, starts, locations, weights = (tensor.npu() for tensor in random_inputs())
    value.requires_grad_()
    function = mmcv_ops.multi_scale_deform_attn.MultiScaleDeformableAttnFunction
    output = function.apply(value, sizes, starts, locations, weights, 64)
    (first,) = torch.autograd.grad((output * output).sum(), value, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        (first * first).sum().backward()
