"""Functions of mmcv.ops that ask for CUDA, run on CPU tensors and compared with other formulas of the same thing."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import math
import os
import subprocess
import sys
import textwrap
from pathlib import Path

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

from packaging.version import Version  # noqa: E402

import mmcv_patches  # noqa: E402
from patcher_core import Patcher, PatchStatus  # noqa: E402

only_mmcv_2 = pytest.mark.skipif(
    Version(mmcv_patches.mmcv_version.version) < Version("2.0.0"),
    reason="mmcv before 2.0.0 has another upfirdn2d and neither of the other two",
)
# Not by find_spec of the module itself: that imports mmcv.ops, which needs the extension.
has_sparse_convolution = (
    Path(importlib.util.find_spec("mmcv").origin).with_name("ops").joinpath("sparse_ops.py").exists()
)


@pytest.fixture(scope="module")
def patcher():
    patches = (mmcv_patches.PortableExtension, mmcv_patches.DeviceNeutralOperators)
    with Patcher(backend="portable").add(patches[0], options={"force": True}).add(patches[1]) as applied:
        yield applied


@pytest.fixture
def ops(patcher):
    """``mmcv.ops``, patched."""
    import mmcv.ops

    return mmcv.ops


#: Functions that name CUDA and run on any device all the same, or whose only caller is replaced.
HARMLESS = {
    "conv2d_gradfix._conv2d_gradfix.Conv2d.forward": "behind _should_use_custom_op",
    "conv2d_gradfix._should_use_custom_op": "other devices take torch's own convolution",
    "filtered_lrelu._filtered_lrelu_cuda.FilteredLReluCuda.forward": "its only caller is replaced",
    "focal_loss.SigmoidFocalLossFunction.forward": "the patch SigmoidFocalLoss replaces it",
    "info.get_compiling_cuda_version": "the name of a version",
    "multi_scale_deform_attn.MultiScaleDeformableAttention.forward": "other devices take upstream's formula",
}


def functions_that_name_cuda(folder):
    """Paths below mmcv.ops, from the sources, annotations left out."""
    for file in sorted(folder.glob("*.py")):
        yield from in_scope(file.stem, ast.parse(file.read_text(encoding="utf-8")))


def in_scope(path, node):
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
            yield from in_scope(f"{path}.{child.name}", child)
        elif isinstance(child, ast.arguments):
            continue
        elif getattr(child, "attr", None) in ("cuda", "is_cuda") or getattr(child, "value", None) == "cuda":
            yield path
        else:
            yield from in_scope(path, child)


def test_every_function_of_this_mmcv_that_names_cuda_is_replaced(patcher, ops):
    statuses = {result.name: result.status for result in patcher.report if result.name.startswith("mmcv.ops")}
    assert PatchStatus.FAILED not in statuses.values()
    applied = {name[len("mmcv.ops.") :] for name, status in statuses.items() if status is PatchStatus.APPLIED}
    found = {*functions_that_name_cuda(Path(ops.__file__).parent)}
    assert len(found) > 5
    assert found - {*HARMLESS} <= applied
    # Nothing else is touched: fused_indice_conv has another fault.
    assert applied - {"sparse_ops.fused_indice_conv"} <= found


def test_furthest_point_sample_takes_the_point_furthest_from_those_taken(ops):
    points = torch.rand(2, 40, 3)
    indices = ops.furthest_point_sample(points, 9)
    assert indices.dtype == torch.int32
    for cloud, chosen in zip(points, indices.tolist()):
        assert chosen[0] == 0
        for count in range(1, 9):
            distance = torch.cdist(cloud, cloud[chosen[:count]]).amin(1)
            assert distance[chosen[count]] == pytest.approx(float(distance.max()), rel=1e-5)


@pytest.mark.parametrize("transposed", [False, True])
def test_knn_finds_the_nearest_points(ops, transposed):
    points, centers = torch.rand(2, 30, 3), torch.rand(2, 7, 3)
    given = [t.transpose(1, 2).contiguous() if transposed else t for t in (points, centers)]
    indices = ops.knn(5, *given, transposed)
    assert torch.equal(
        indices.long(), torch.cdist(centers, points).topk(5, largest=False).indices.transpose(1, 2)
    )
    assert torch.equal(ops.knn(1, points)[:, 0].long(), torch.arange(30).expand(2, 30))


def test_grouping_picks_the_columns_of_each_sample(ops):
    features, indices = torch.randn(2, 3, 9, requires_grad=True), torch.randint(0, 9, (2, 5, 4))
    grouped = ops.grouping_operation(features, indices.int())
    expected = torch.stack([sample[:, places] for sample, places in zip(features, indices)])
    assert torch.equal(grouped, expected)
    weight = torch.randn_like(expected)
    ours, theirs = (torch.autograd.grad(values, features, weight)[0] for values in (grouped, expected))
    torch.testing.assert_close(ours, theirs)


def test_gathering_picks_the_columns_of_each_sample(ops):
    features, indices = torch.randn(2, 3, 9, requires_grad=True), torch.randint(0, 9, (2, 12))
    gathered = ops.gather_points(features, indices.int())
    expected = torch.stack([sample[:, places] for sample, places in zip(features, indices)])
    assert torch.equal(gathered, expected)
    weight = torch.randn_like(expected)
    ours, theirs = (torch.autograd.grad(values, features, weight)[0] for values in (gathered, expected))
    torch.testing.assert_close(ours, theirs)


def test_three_nn_finds_the_nearest_points_and_their_distances(ops):
    target, source = torch.rand(2, 11, 3), torch.rand(2, 20, 3)
    distances, indices = ops.three_nn(target, source)
    # coordinate by coordinate: cdist loses digits to a matrix product
    apart = (target[:, :, None] - source[:, None]).pow(2).sum(3).sqrt()
    expected = apart.topk(3, largest=False)
    assert torch.equal(indices.long(), expected.indices)
    torch.testing.assert_close(distances, expected.values)


def test_interpolation_is_a_weighted_sum_of_three_columns(ops):
    features, indices = torch.randn(2, 4, 9, requires_grad=True), torch.randint(0, 9, (2, 11, 3))
    weights = torch.rand(2, 11, 3)
    interpolated = ops.three_interpolate(features, indices.int(), weights)
    expected = torch.stack(
        [(sample[:, places] * shares).sum(2) for sample, places, shares in zip(features, indices, weights)]
    )
    torch.testing.assert_close(interpolated, expected)
    weight = torch.randn_like(expected)
    ours, theirs = (torch.autograd.grad(values, features, weight)[0] for values in (interpolated, expected))
    torch.testing.assert_close(ours, theirs)


def test_grouping_of_stacked_samples_picks_the_rows_of_each(ops):
    if len(inspect.signature(ops.group_points.GroupingOperation.forward).parameters) < 5:
        pytest.skip("mmcv before 1.7 does not group stacked samples")
    features, counts, wanted = torch.randn(9, 3, requires_grad=True), [5, 4], [2, 4]
    indices = torch.cat([torch.randint(0, count, (rows, 6)) for count, rows in zip(counts, wanted)])
    as_counts = (torch.tensor(values, dtype=torch.int32) for values in (counts, wanted))
    grouped = ops.grouping_operation(features, indices.int(), *as_counts)
    starts = torch.tensor([0, 5]).repeat_interleave(torch.tensor(wanted))[:, None]
    expected = features[indices + starts].transpose(1, 2)
    assert torch.equal(grouped, expected)
    weight = torch.randn_like(expected)
    ours, theirs = (torch.autograd.grad(values, features, weight)[0] for values in (grouped, expected))
    torch.testing.assert_close(ours, theirs)


def points_and_boxes():
    boxes = torch.cat([torch.rand(2, 6, 3) * 4, torch.rand(2, 6, 3) * 3 + 0.5, torch.randn(2, 6, 1)], 2)
    return torch.rand(2, 80, 3) * 5, boxes


def test_points_in_boxes_all_is_what_the_cpu_function_says(ops):
    points, boxes = points_and_boxes()
    inside = ops.points_in_boxes_all(points, boxes)
    assert inside.any() and torch.equal(inside, ops.points_in_boxes_cpu(points, boxes))


def test_points_in_boxes_part_is_the_first_of_all_boxes_that_hold_the_point(ops):
    points, boxes = points_and_boxes()
    inside = ops.points_in_boxes_cpu(points, boxes)
    first = torch.where(inside.any(2), inside.argmax(2), torch.tensor(-1))
    assert torch.equal(ops.points_in_boxes_part(points, boxes).long(), first)


def test_points_and_boxes_of_different_batches_are_refused_as_upstream_does(ops):
    with pytest.raises(AssertionError, match="same batch size"):
        ops.points_in_boxes_all(torch.rand(1, 4, 3), torch.rand(2, 4, 7))


def test_points_in_polygons_are_on_one_side_of_all_four_edges(ops):
    if not hasattr(ops, "points_in_polygons"):
        pytest.skip("this mmcv has no points_in_polygons yet")
    points, centers = torch.rand(40, 2) * 4, torch.rand(5, 1, 2) * 4
    corners = centers + torch.tensor([[-1.0, -0.8], [0.9, -1.1], [1.2, 0.7], [-0.6, 1.3]])
    inside = ops.points_in_polygons(points, corners.flatten(1))
    edges, offsets = corners.roll(-1, 1) - corners, points[:, None, None] - corners
    expected = (edges[..., 0] * offsets[..., 1] - edges[..., 1] * offsets[..., 0] > 0).all(2)
    assert expected.any() and torch.equal(inside, expected.float())


def test_carafe_naive_has_the_gradients_of_carafe(ops):
    features, masks = torch.randn(2, 4, 3, 5), torch.rand(2, 9 * 2, 6, 10)
    results = []
    for function in (ops.carafe_naive, ops.carafe):
        inputs = [features.clone().requires_grad_(), masks.clone().requires_grad_()]
        output = function(*inputs, 3, 2, 2)
        results.append([output, *torch.autograd.grad((output * output).sum(), inputs)])
    for naive, other in zip(*results):
        torch.testing.assert_close(naive, other)


def test_suppression_in_space_keeps_no_two_boxes_that_overlap(ops):
    iou3d = sys.modules["mmcv.ops.iou3d"]
    # Upstream takes a corner up to 0.01 beside a box for one in it: here corners are an eighth apart or coincide. The
    # overlaps are quotients of small whole numbers, none of them near the limit.
    limit, centers, sizes = 1 / math.pi, torch.randint(0, 64, (40, 3)) / 8, torch.randint(2, 15, (40, 3)) / 4
    boxes = torch.cat([centers, sizes, torch.zeros(40, 1)], 1)
    scores = torch.randperm(40) / 40
    low, high = boxes[:, :2] - boxes[:, 3:5] / 2, boxes[:, :2] + boxes[:, 3:5] / 2
    shared = (torch.minimum(high[:, None], high) - torch.maximum(low[:, None], low)).clamp(min=0).prod(2)
    area = (high - low).prod(1)
    overlap = shared / (area[:, None] + area - shared)
    expected = []
    for box in scores.argsort(descending=True).tolist():
        if not expected or overlap[box, expected].max() <= limit:
            expected.append(box)
    for name in ("nms3d", "nms3d_normal"):  # one and the same without an angle
        if hasattr(iou3d, name):
            assert getattr(iou3d, name)(boxes, scores, limit).tolist() == expected
    flat = torch.cat([low, high, boxes[:, 6:]], 1)
    assert iou3d.nms_bev(flat, scores, limit).tolist() == expected
    assert iou3d.nms_bev(flat, scores, limit, 30, 2).tolist() == expected[:2]
    assert iou3d.nms_normal_bev(flat, scores, limit).tolist() == expected


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_softmax_focal_loss_equals_its_formula(ops, reduction):
    logits, target = torch.randn(9, 4, requires_grad=True), torch.randint(0, 4, (9,))
    loss = ops.softmax_focal_loss(logits, target, 2.0, 0.25, None, reduction)
    log_p = logits.log_softmax(1).gather(1, target[:, None])[:, 0]
    rows = -0.25 * (1 - log_p.exp()) ** 2 * log_p
    expected = {"none": rows, "mean": rows.mean(), "sum": rows.sum()}[reduction]
    torch.testing.assert_close(loss, expected)
    if reduction == "none":
        return  # upstream's backward multiplies (N, C) by (N,) there
    ours, theirs = (torch.autograd.grad(value.sum(), logits)[0] for value in (loss, expected))
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.fixture
def process_group():
    """A group of this process alone, which mmcv's SyncBatchNorm asks for; another test may have left one."""
    if torch.distributed.is_initialized():
        yield
        return
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.usefixtures("process_group")
@pytest.mark.parametrize("stats_mode", ["default", "N"])
def test_sync_batch_norm_of_one_process_is_batch_norm(ops, stats_mode):
    layer, reference = ops.SyncBatchNorm(3, stats_mode=stats_mode), torch.nn.BatchNorm2d(3)
    images = [torch.randn(4, 3, 5, 6, requires_grad=True)]
    images.append(images[0].detach().clone().requires_grad_())
    grad = torch.randn(4, 3, 5, 6)
    for module, image in zip((layer, reference), images):
        module.train()
        with torch.no_grad():
            module.weight.copy_(torch.tensor([0.5, 2.0, 1.0]))
        (module(image) * grad).sum().backward()
    torch.testing.assert_close(layer(images[0]), reference(images[1]), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(images[0].grad, images[1].grad, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(layer.weight.grad, reference.weight.grad, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(layer.running_mean, reference.running_mean)
    torch.testing.assert_close(layer.running_var, reference.running_var)


@pytest.mark.skipif(not has_sparse_convolution, reason="this mmcv has no sparse convolution yet")
def test_fused_indice_conv_is_a_sparse_convolution_with_a_bias(ops):
    sparse_ops = sys.modules["mmcv.ops.sparse_ops"]
    positions = torch.randperm(4 * 5 * 6)[:20]
    indices = torch.stack([0 * positions, positions // 30, positions // 6 % 5, positions % 6], 1).int()
    out_indices, pairs, counts = sparse_ops.get_indice_pairs(indices, 1, [4, 5, 6], 3, 1, 1, 1, 0, subm=True)
    features, filters, bias = torch.randn(20, 3), torch.randn(3, 3, 3, 3, 7), torch.randn(7)
    arguments = (pairs, counts, len(out_indices), False, True)
    expected = sparse_ops.indice_conv(features, filters, *arguments) + bias
    fused = sparse_ops.fused_indice_conv(features, filters, bias, *arguments)
    torch.testing.assert_close(fused, expected)
    with pytest.raises(NotImplementedError, match=r"found filters of torch\.float64"):
        sparse_ops.fused_indice_conv(features, filters.double(), bias, *arguments)


def values_and_derivatives(function, inputs):
    """Output, gradients, and the gradients of a function of the gradients."""
    inputs = [tensor.detach().clone().requires_grad_() for tensor in inputs]
    output = function(*inputs)
    generator = torch.Generator().manual_seed(0)
    weight = (
        torch.randn(output.shape, generator=generator, dtype=torch.float64).to(output.dtype).requires_grad_()
    )
    first = torch.autograd.grad((output * weight).sum(), inputs, create_graph=True)
    total = sum((gradient * gradient).sum() for gradient in first)
    second = torch.autograd.grad(total, [*inputs, weight], allow_unused=True)
    return [output, *first, *(gradient if gradient is not None else torch.zeros(()) for gradient in second)]


def assert_same(ours, theirs, tolerance=1e-5):
    assert len(ours) == len(theirs)
    for our, their in zip(ours, theirs):
        if our.shape != their.shape:  # one says None for a gradient of zeros
            assert not our.any() and not their.any()
        else:
            torch.testing.assert_close(our, their, rtol=tolerance, atol=tolerance)


@only_mmcv_2
@pytest.mark.parametrize("clamp", [None, 0.6])
@pytest.mark.parametrize(
    "act", ["relu", "lrelu", "tanh", "sigmoid", "elu", "selu", "softplus", "swish", "linear"]
)
def test_bias_act_equals_upstreams_formula_up_to_the_second_derivative(ops, act, clamp):
    if act == "linear" and clamp:
        clamp = None  # the derivative of upstream's operator does not see the clamp there, its formula does
    module = sys.modules["mmcv.ops.bias_act"]
    inputs = torch.randn(3, 4, 5, dtype=torch.float64), torch.randn(4, dtype=torch.float64)
    settings = {"act": act, "gain": 1.3, "clamp": clamp}
    ours = values_and_derivatives(lambda x, b: ops.bias_act(x, b, **settings), inputs)
    theirs = values_and_derivatives(lambda x, b: module._bias_act_ref(x, b, **settings), inputs)
    assert_same(ours, theirs)


@only_mmcv_2
@pytest.mark.parametrize("taps", [(4, 3), (5,), None])
def test_upfirdn2d_equals_upstreams_formula_up_to_the_second_derivative(ops, taps):
    module = sys.modules["mmcv.ops.upfirdn2d"]
    image, filter = torch.randn(2, 3, 7, 6, dtype=torch.float64), None if taps is None else torch.rand(taps)
    settings = {"up": [2, 3], "down": 2, "padding": [3, 2, 1, 4], "gain": 1.5}
    ours = values_and_derivatives(lambda x: ops.upfirdn2d(x, filter, **settings), [image])
    theirs = values_and_derivatives(lambda x: module._upfirdn2d_ref(x, filter, **settings), [image])
    assert_same(ours, theirs)


@only_mmcv_2
@pytest.mark.parametrize("clamp", [None, 0.5])
@pytest.mark.parametrize(("up_taps", "down_taps"), [((6,), (4,)), ((3, 4), (2, 2)), (None, (1,))])
def test_filtered_lrelu_equals_upstreams_formula_up_to_the_second_derivative(ops, up_taps, down_taps, clamp):
    module = sys.modules["mmcv.ops.filtered_lrelu"]
    inputs = torch.randn(2, 3, 9, 8, dtype=torch.float64), torch.randn(3, dtype=torch.float64)
    filters = [None if taps is None else torch.rand(taps) for taps in (up_taps, down_taps)]
    settings = {"up": 2, "down": 2 if down_taps != (1,) else 1, "padding": [4, 3, 2, 5], "clamp": clamp}
    ours = values_and_derivatives(lambda x, b: ops.filtered_lrelu(x, *filters, b, **settings), inputs)
    theirs = values_and_derivatives(
        lambda x, b: module._filtered_lrelu_ref(x, *filters, b, **settings), inputs
    )
    assert_same(ours, theirs)


@only_mmcv_2
def test_filtered_lrelu_keeps_two_bits_a_value_for_its_gradient(ops):
    """What the extension is for: upstream's formula keeps the upsampled image several times."""
    image, taps = torch.randn(1, 2, 32, 32, requires_grad=True), torch.rand(8)
    output = ops.filtered_lrelu(image, taps, taps, up=4, down=4, padding=14)
    saved = output.grad_fn.saved_tensors
    assert sum(tensor.numel() * tensor.element_size() for tensor in saved) < image.numel() * 16


def test_fused_bias_leakyrelu_equals_upstreams_formula_up_to_the_second_derivative(ops):
    module = sys.modules["mmcv.ops.fused_bias_leakyrelu"]
    inputs = torch.randn(3, 4, 5, dtype=torch.float64), torch.randn(4, dtype=torch.float64)
    ours = values_and_derivatives(lambda x, b: ops.fused_bias_leakyrelu(x, b, 0.1, 1.7), inputs)
    theirs = values_and_derivatives(lambda x, b: module.bias_leakyrelu_ref(x, b, 0.1, 1.7), inputs)
    assert_same(ours, theirs)
    layer = ops.FusedBiasLeakyReLU(4)
    torch.testing.assert_close(layer(torch.ones(1, 4, 2)), torch.full((1, 4, 2), 2**0.5))


@only_mmcv_2
def test_use_custom_op_false_is_upstreams_formula(ops):
    image, taps = torch.randn(1, 2, 6, 6), torch.rand(3, 3)
    for name, arguments in (("bias_act", ()), ("upfirdn2d", (taps,)), ("filtered_lrelu", (taps, taps))):
        module = sys.modules[f"mmcv.ops.{name}"]
        expected = getattr(module, f"_{name}_ref")(image, *arguments)
        assert torch.equal(getattr(ops, name)(image, *arguments, use_custom_op=False), expected)


@pytest.mark.skipif(
    "PATCHER_REFERENCE_MMCV" not in os.environ or not mmcv_patches.mmcv_version.is_v2x,
    reason="no compiled reference of this mmcv here",
)
def test_with_compiled_operators_upstreams_formulas_stay():
    """The compiled extension has no kernel for the CPU behind them: CPU tensors must not be passed to it."""
    script = """
        import sys
        sys.path.insert(0, sys.argv[1])
        import torch, mmcv_patches
        from patcher_core import Patcher
        patches = mmcv_patches.PortableExtension, mmcv_patches.DeviceNeutralOperators
        with Patcher(backend="portable").add(*patches) as patcher:
            import mmcv._ext, mmcv.ops
            status = {result.name: result.status.value for result in patcher.report}
            assert mmcv._ext.__file__.endswith(".so")
            assert status["mmcv.ops.knn.KNN.forward"] == "applied"
            assert status["mmcv.ops.bias_act.bias_act"] == "skipped"
            x = torch.randn(2, 3, 4)
            assert torch.equal(mmcv.ops.bias_act(x, act="relu", gain=1), x.relu())
    """
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-c",
        textwrap.dedent(script),
        os.environ["PATCHER_REFERENCE_MMCV"],
    ]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
