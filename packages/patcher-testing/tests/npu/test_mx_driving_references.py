"""mx_driving on the simulated NPU against compiled mmcv operators, dense convolutions and torch.optim."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the simulated NPU needs torch")

from torch.nn import functional  # noqa: E402

pytestmark = [
    pytest.mark.simulated_npu,
    pytest.mark.usefixtures("random_seed"),
    pytest.mark.filterwarnings("ignore:index_reduce.. is in beta"),
]

# float32 on both sides, sums in another order
TOLERANCE = {"rtol": 1e-4, "atol": 1e-4}


@pytest.fixture
def mx_driving(simulated_npu):
    return simulated_npu.mx_driving


def assert_same_values_and_gradients(on_npu, on_cpu, inputs):
    """`inputs` that are float tensors are differentiated."""
    npu_inputs = [tensor.npu().requires_grad_(tensor.is_floating_point()) for tensor in inputs]
    cpu_inputs = [tensor.clone().requires_grad_(tensor.is_floating_point()) for tensor in inputs]
    found, expected = on_npu(*npu_inputs), on_cpu(*cpu_inputs)
    grad = torch.randn(expected.shape)
    found.backward(grad.npu())
    expected.backward(grad)
    pairs = [
        (found, expected),
        *((n.grad, c.grad) for n, c in zip(npu_inputs, cpu_inputs) if c.requires_grad),
    ]
    for one_found, one_expected in pairs:
        assert one_expected.abs().max() > 0
        torch.testing.assert_close(one_found.cpu(), one_expected, **TOLERANCE)


def test_multi_scale_deformable_attention_equals_mmcvs_pytorch_form(mx_driving, mmcv_ops):
    from mmcv.ops.multi_scale_deform_attn import multi_scale_deformable_attn_pytorch

    sizes = torch.tensor([[4, 5], [2, 3]])
    starts = torch.tensor([0, 20])
    batch, heads, channels, queries, points = 2, 3, 4, 7, 2
    value = torch.randn(batch, 26, heads, channels)
    locations = torch.rand(batch, queries, heads, 2, points, 2) * 1.2 - 0.1
    weights = torch.rand(batch, queries, heads, 2, points)
    assert_same_values_and_gradients(
        lambda v, x, w: mx_driving.multi_scale_deformable_attn(v, sizes.npu(), starts.npu(), x, w),
        lambda v, x, w: multi_scale_deformable_attn_pytorch(v, sizes, x, w),
        [value, locations, weights],
    )


@pytest.mark.parametrize(
    "stride, padding, dilation, groups, deform_groups",
    [(1, 1, 1, 1, 1), (2, 1, 1, 1, 2), (1, 2, 2, 2, 1), (1, 0, 1, 2, 2)],
)
def test_deformable_convolution_equals_compiled_mmcv(
    mx_driving, mmcv_ops, stride, padding, dilation, groups, deform_groups
):
    x, weight = torch.randn(2, 8, 7, 9), torch.randn(6, 8 // groups, 3, 3)
    plain = functional.conv2d(x, weight, None, stride, padding, dilation, groups)
    offset = torch.randn(2, 2 * deform_groups * 9, *plain.shape[-2:])
    options = (stride, padding, dilation, groups, deform_groups)
    assert_same_values_and_gradients(
        lambda *inputs: mx_driving.deform_conv2d(*inputs, *options),
        lambda *inputs: mmcv_ops.deform_conv2d(*inputs, *options),
        [x, offset, weight],
    )


@pytest.mark.parametrize("deform_groups", [1, 2])
def test_modulated_deformable_convolution_equals_compiled_mmcv(mx_driving, mmcv_ops, deform_groups):
    x, weight = torch.randn(1, 64, 5, 6), torch.randn(64, 64, 3, 3) * 0.1
    offset, mask = torch.randn(1, 2 * deform_groups * 9, 5, 6), torch.rand(1, deform_groups * 9, 5, 6)
    assert_same_values_and_gradients(
        lambda x, o, m, w: mx_driving.modulated_deform_conv2d(x, o, m, w, None, 1, 1, 1, 1, deform_groups),
        lambda x, o, m, w: mmcv_ops.modulated_deform_conv2d(x, o, m, w, None, 1, 1, 1, 1, deform_groups),
        [x, offset, mask, weight],
    )


def test_modulated_deformable_convolution_drops_its_bias_and_refuses_other_shapes_as_the_real_one_does(
    mx_driving,
):
    x, offset, mask = (
        torch.randn(1, 64, 4, 4).npu(),
        torch.randn(1, 18, 4, 4).npu(),
        torch.rand(1, 9, 4, 4).npu(),
    )
    weight, bias = torch.randn(64, 64, 3, 3).npu(), torch.ones(64).npu()
    with_bias = mx_driving.modulated_deform_conv2d(x, offset, mask, weight, bias, 1, 1)
    without = mx_driving.modulated_deform_conv2d(x, offset, mask, weight, None, 1, 1)
    assert torch.equal(with_bias, without)
    with pytest.raises(ValueError, match="64-aligned"):
        mx_driving.modulated_deform_conv2d(x[:, :3], offset, mask, weight[:, :3], None, 1, 1)


@pytest.mark.parametrize("max_voxels", [3, 100])
def test_hard_voxelization_equals_compiled_mmcv(mx_driving, mmcv_ops, max_voxels):
    points = torch.rand(60, 5) * 6 - 1
    voxel_size, point_range = [1.0, 1.0, 2.0], [0.0, 0.0, 0.0, 4.0, 4.0, 4.0]
    expected = mmcv_ops.Voxelization(voxel_size, point_range, 2, max_voxels)(points)
    found = mx_driving.voxelization(points.npu(), voxel_size, point_range, 2, max_voxels, True, "ZYX")[1:]
    assert len(expected[0]) == min(max_voxels, len(expected[0])) > 2
    for one_found, one_expected in zip(found, expected):
        torch.testing.assert_close(one_found.cpu(), one_expected, check_dtype=False)


def test_dynamic_voxelization_equals_compiled_mmcv(mx_driving, mmcv_ops):
    points = torch.rand(60, 4) * 6 - 1
    voxel_size, point_range = [1.0, 1.0, 2.0], [0.0, 0.0, 0.0, 4.0, 4.0, 4.0]
    expected = mmcv_ops.Voxelization(voxel_size, point_range, -1, -1)(points)
    found = mx_driving.voxelization(points.npu(), voxel_size, point_range, -1, -1).cpu()
    assert (expected == -1).any() and (expected > 0).any()
    outside = (expected == -1).any(1)
    assert torch.equal(found[~outside], expected[~outside])
    assert (found[outside] == -1).all()


def test_points_in_boxes_equal_compiled_mmcv(mx_driving, mmcv_ops):
    points = torch.rand(2, 200, 3) * 4 - 2
    boxes = torch.cat(
        (torch.rand(2, 5, 3) * 2 - 1.5, torch.rand(2, 5, 3) + 0.5, torch.rand(2, 5, 1) * 6), dim=-1
    )
    expected = mmcv_ops.points_in_boxes_cpu(points, boxes)
    found = mx_driving.points_in_boxes_all(boxes.npu(), points.npu()).cpu()
    assert expected.any() and not expected.all()
    assert torch.equal(found, expected.int())
    first = mx_driving.points_in_box(boxes.npu(), points.npu()).cpu()
    assert torch.equal(first >= 0, expected.any(-1))


def test_scatter_max_equals_torch_reductions_and_marks_empty_groups(mx_driving):
    source, index = torch.randn(9, 4), torch.tensor([0, 4, 0, 1, 4, 4, 1, 0, 1], dtype=torch.int32)
    differentiable = source.npu().requires_grad_()
    values, rows = mx_driving.scatter_max(differentiable, index.unsqueeze(1).npu())
    expected_input = source.clone().requires_grad_()
    expected = torch.zeros(5, 4).index_reduce(0, index.long(), expected_input, "amax", include_self=False)
    grad = torch.randn(5, 4)
    values.backward(grad.npu())
    expected.backward(grad)
    torch.testing.assert_close(values.cpu(), expected)
    torch.testing.assert_close(differentiable.grad.cpu(), expected_input.grad)
    assert (rows.cpu()[[2, 3]] == len(source)).all()
    present = rows.cpu()[[0, 1, 4]].long()
    assert torch.equal(source.gather(0, present), expected[[0, 1, 4]])


@pytest.mark.parametrize("dim", [0, 1])
def test_scatter_add_and_mean_equal_torch_reductions(mx_driving, dim):
    source, index = torch.randn(6, 6), torch.tensor([0, 3, 0, 1, 3, 3])

    def expected_mean(x):
        return torch.zeros(4, 6).index_reduce(0, index, x, "mean", include_self=False)

    def along(x):
        return x if dim == 0 else x.t()

    assert_same_values_and_gradients(
        lambda x: mx_driving.scatter_add(x, index.npu(), None, dim, 4),
        lambda x: along(torch.zeros(4, 6).index_add(0, index, along(x))),
        [source],
    )
    assert_same_values_and_gradients(
        lambda x: mx_driving.scatter_mean(x, index.npu(), None, dim, 4),
        lambda x: along(expected_mean(along(x))),
        [source],
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_sigmoid_focal_loss_equals_its_formula(mx_driving, weighted):
    logits, target = torch.randn(7, 4), torch.tensor([0, 3, 1, 4, 4, 2, 0])
    class_weight = torch.rand(4) + 0.5 if weighted else None

    def formula(x):
        hot = functional.one_hot(target, 5)[:, :4].to(x.dtype)
        entropy = functional.binary_cross_entropy_with_logits(x, hot, reduction="none")
        probability = x.sigmoid() * hot + (1 - x.sigmoid()) * (1 - hot)
        loss = (0.25 * hot + 0.75 * (1 - hot)) * (1 - probability) ** 2 * entropy
        if weighted:
            loss = loss * functional.pad(class_weight, (0, 1), value=1.0)[target].unsqueeze(1)
        return loss

    weight = None if class_weight is None else class_weight.npu()
    assert_same_values_and_gradients(
        lambda x: mx_driving.sigmoid_focal_loss(x, target.npu(), 2.0, 0.25, weight, "none"), formula, [logits]
    )


@pytest.mark.parametrize("amsgrad", [False, True])
def test_fused_adamw_equals_torch_optim(mx_driving, amsgrad):
    start = torch.randn(40)
    parameter = torch.nn.Parameter(start.clone())
    optimizer = torch.optim.AdamW(
        [parameter], lr=0.05, betas=(0.8, 0.9), weight_decay=0.1, eps=1e-6, amsgrad=amsgrad
    )
    fused = start.npu()
    moments = [torch.zeros(40).npu() for _ in range(3)]
    for step in range(1, 6):
        gradient = torch.randn(40)
        parameter.grad = gradient.clone()
        optimizer.step()
        mx_driving.fused_adamw_custom(
            fused, gradient.npu(), *moments, 0.05, 0.8, 0.9, 0.1, 1e-6, step, amsgrad
        )
    torch.testing.assert_close(fused.cpu(), parameter.detach(), rtol=1e-5, atol=1e-6)


def test_batch_matmul_equals_matmul(mx_driving):
    a, b = torch.randn(2, 3, 4, 4), torch.randn(2, 1, 4, 1)
    assert_same_values_and_gradients(mx_driving.npu_batch_matmul, torch.matmul, [a, b])


def test_add_relu_equals_its_formula_through_the_fused_kernel_too(mx_driving, simulated_npu):
    small = [torch.randn(3, 4), torch.randn(3, 4)]
    assert_same_values_and_gradients(mx_driving.npu_add_relu, lambda x, y: functional.relu(x + y), small)
    large = [torch.randn(2_000_000), torch.randn(2_000_000)]
    with simulated_npu.record_operators() as operators:
        found = mx_driving.npu_add_relu(*(tensor.npu() for tensor in large))
    operators.assert_ran("mx_driving::npu_add_relu", times=1)
    torch.testing.assert_close(found.cpu(), functional.relu(large[0] + large[1]))


def test_max_pool2d_is_the_pooling_of_a_resnet_stem_and_has_no_backward(mx_driving):
    x = torch.randn(2, 16, 9, 7)
    torch.testing.assert_close(
        mx_driving.npu_max_pool2d(x.npu(), 3, 2, 1).cpu(), functional.max_pool2d(x, 3, 2, 1)
    )
    with pytest.raises(RuntimeError, match="only kernel_size 3, stride 2, padding 1"):
        mx_driving.npu_max_pool2d(x.npu(), 2, 2, 0)
    with pytest.raises(NotImplementedError):
        mx_driving.npu_max_pool2d(x.npu().requires_grad_(), 3, 2, 1).sum().backward()


class SparsePoints:
    """Random points in two 5 x 6 x 4 volumes: sparse parts, or a dense (batch, channels, z, y, x)."""

    shape = (5, 6, 4)

    def __init__(self, channels):
        occupied = torch.rand(2, *self.shape) < 0.25
        occupied[:, 2, 3, 1] = True
        self.indices = occupied.nonzero().int()
        self.features = torch.randn(len(self.indices), channels)

    def dense(self, features):
        full = torch.zeros(2, *self.shape, features.size(1))
        return full.index_put(self.indices.long().unbind(1), features).permute(0, 4, 1, 2, 3)

    def tensor(self, mx_driving, features):
        return mx_driving.SparseConvTensor(features, self.indices.npu(), list(self.shape), 2)


def at(dense, indices):
    """Values of a dense (batch, channels, z, y, x) at sparse positions."""
    return dense.permute(0, 2, 3, 4, 1)[indices.long().unbind(1)]


def dense_weight(layer):
    """(out, in, z, y, x) from (z, y, x, in, out)."""
    return layer.weight.detach().cpu().permute(4, 3, 0, 1, 2).contiguous().requires_grad_()


def assert_same_gradients(layer, weight, features, expected_features):
    torch.testing.assert_close(features.grad.cpu(), expected_features.grad, **TOLERANCE)
    torch.testing.assert_close(layer.weight.grad.cpu().permute(4, 3, 0, 1, 2), weight.grad, **TOLERANCE)


def test_submanifold_convolution_equals_a_dense_one_at_the_points(mx_driving):
    points = SparsePoints(3)
    layer = mx_driving.SubMConv3d(3, 5, 3, bias=False, indice_key="a").npu()
    features, expected_features = (
        points.features.npu().requires_grad_(),
        points.features.clone().requires_grad_(),
    )
    weight = dense_weight(layer)

    found = layer(points.tensor(mx_driving, features)).features
    expected = at(functional.conv3d(points.dense(expected_features), weight, padding=1), points.indices)
    grad = torch.randn(expected.shape)
    found.backward(grad.npu())
    expected.backward(grad)

    torch.testing.assert_close(found.cpu(), expected, **TOLERANCE)
    assert_same_gradients(layer, weight, features, expected_features)


@pytest.mark.parametrize("stride, padding", [(1, 1), (2, 1), (2, 0)])
def test_sparse_convolution_equals_a_dense_one(mx_driving, stride, padding):
    points = SparsePoints(3)
    layer = mx_driving.SparseConv3d(3, 5, 3, stride, padding, bias=False).npu()
    features, expected_features = (
        points.features.npu().requires_grad_(),
        points.features.clone().requires_grad_(),
    )
    weight = dense_weight(layer)

    result = layer(points.tensor(mx_driving, features))
    dense = functional.conv3d(points.dense(expected_features), weight, stride=stride, padding=padding)
    indices = result.indices.cpu()
    expected = at(dense, indices)
    grad = torch.randn(expected.shape)
    result.features.backward(grad.npu())
    expected.backward(grad)

    assert list(result.spatial_shape) == list(dense.shape[2:])
    torch.testing.assert_close(result.features.cpu(), expected, **TOLERANCE)
    # outside the sparse result the dense one is zero: no output position is missing
    assert torch.count_nonzero(dense.detach().abs().sum(1)) == len(indices)
    assert_same_gradients(layer, weight, features, expected_features)


def test_inverse_convolution_equals_a_transposed_dense_one_at_the_original_points(mx_driving):
    points = SparsePoints(3)
    down = mx_driving.SparseConv3d(3, 4, 3, 2, 1, bias=False, indice_key="a").npu()
    up = mx_driving.SparseInverseConv3d(4, 5, 3, bias=False, indice_key="a").npu()
    middle = down(points.tensor(mx_driving, points.features.npu()))
    middle_features = middle.features.detach().requires_grad_()
    expected_middle = middle_features.detach().cpu().requires_grad_()
    middle.features = middle_features

    result = up(middle)
    full = torch.zeros(2, *middle.spatial_shape, 4)
    full = full.index_put(middle.indices.cpu().long().unbind(1), expected_middle).permute(0, 4, 1, 2, 3)
    weight = up.weight.detach().cpu().permute(3, 4, 0, 1, 2).contiguous().requires_grad_()
    size_left_over = [size - ((out - 1) * 2 - 2 + 3) for size, out in zip(points.shape, middle.spatial_shape)]
    dense = functional.conv_transpose3d(full, weight, stride=2, padding=1, output_padding=size_left_over)
    expected = at(dense, points.indices)
    grad = torch.randn(expected.shape)
    result.features.backward(grad.npu())
    expected.backward(grad)

    assert torch.equal(result.indices.cpu(), points.indices)
    torch.testing.assert_close(result.features.cpu(), expected, **TOLERANCE)
    torch.testing.assert_close(middle_features.grad.cpu(), expected_middle.grad, **TOLERANCE)
    torch.testing.assert_close(up.weight.grad.cpu().permute(3, 4, 0, 1, 2), weight.grad, **TOLERANCE)


def test_arguments_are_checked_against_the_compiled_modules_own_signatures(mx_driving):
    import mx_driving._C as compiled

    x = torch.randn(1, 16, 8, 8).npu()
    with pytest.raises(TypeError, match="missing a required argument"):
        compiled.npu_max_pool2d(x, 3, 2)
    with pytest.raises(TypeError, match="too many positional arguments"):
        compiled.npu_max_pool2d(x, 3, 2, 1, 1)
    with pytest.raises(TypeError, match="is float, not int"):
        compiled.npu_max_pool2d(x, 3.0, 2, 1)
    with pytest.raises(TypeError, match=r"is NoneType, not torch\.Tensor"):
        compiled.npu_add_relu(x, None)
    with pytest.raises(RuntimeError, match="must be an NPU tensor, it is on cpu"):
        compiled.npu_add_relu(x, torch.randn(1, 16, 8, 8))


def test_a_compiled_function_without_a_reference_raises_and_names_itself(mx_driving):
    boxes = torch.rand(3, 7).npu()
    with pytest.raises(NotImplementedError, match="mx_driving::nms3d"):
        mx_driving.nms3d(boxes, torch.rand(3).npu(), 0.5)


def test_public_functions_are_recorded_even_where_no_compiled_function_is_reached(mx_driving, simulated_npu):
    with simulated_npu.record_operators() as operators:
        mx_driving.npu_batch_matmul(torch.randn(2, 3, 4, 4).npu(), torch.randn(2, 3, 4, 1).npu())
    operators.assert_ran("npu_batch_matmul", times=1)
