"""Every public class and function of mmcv.ops, made and called once, forward and backward, without compiled operators.

What the numbers are is asked elsewhere; here, that upstream's own callers get along with the operators.
"""

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
from patcher_core import Patcher  # noqa: E402


class Leaves:
    """Random tensors that must get a gradient."""

    def __init__(self):
        self.tensors = []

    def __call__(self, *shape, scale=1.0):
        return self.of(scale * torch.randn(shape))

    def of(self, values):
        self.tensors.append(values.requires_grad_())
        return values


class StridedLeaves(Leaves):
    """The same, with a gap in memory after every value."""

    def of(self, values):
        strided = torch.stack([values, torch.full_like(values, torch.nan)], -1)[..., 0]
        return super().of(strided)


def image():
    return torch.randn(1, 4, 8, 8)


def rois():
    return torch.tensor([[0, 1.2, 1.1, 6.3, 5.7], [0, 2.4, 0.3, 7.1, 6.9]])


def rotated_rois():
    return torch.tensor([[0, 4.1, 3.2, 4.0, 3.0, 0.3], [0, 3.3, 4.2, 5.0, 2.0, -0.7]])


def rotated_boxes():
    return torch.tensor([[4.1, 3.2, 4.0, 3.0, 0.3], [4.0, 3.4, 5.0, 2.0, -0.7], [20.0, 20.0, 2.0, 2.0, 0.0]])


def boxes_3d():
    return torch.tensor([[1.0, 1.0, 0.0, 2.0, 2.0, 2.0, 0.3], [1.3, 1.1, 0.1, 2.0, 1.5, 2.0, -0.2]])


def quadrilaterals():
    return torch.tensor([[0.0, 0.0, 4.0, 0.0, 4.0, 4.0, 0.0, 4.0], [1.0, 1.0, 5.0, 1.2, 5.0, 5.0, 1.0, 5.0]])


def scores(count=2):
    return torch.linspace(0.9, 0.5, count)


def clouds(count=30):
    return torch.rand(2, count, 3)


def voxel_positions(dimensions):
    """Distinct positions in a grid of 6 to each side, with the index of the sample before them."""
    places = torch.randperm(6**dimensions)[:30]
    axes = [places // 6**axis % 6 for axis in range(dimensions)]
    return torch.stack([0 * places, *axes], 1).int()


def sparse(ops, leaf, dimensions):
    return ops.SparseConvTensor(leaf(30, 3), voxel_positions(dimensions), [6] * dimensions, 1)


def inverse_convolution(ops, leaf, dimensions):
    """It goes back over the pairs that an earlier convolution of the same key has found."""
    down = getattr(ops, f"SparseConv{dimensions}d")(3, 4, 3, stride=2, padding=1, indice_key="down")
    back = getattr(ops, f"SparseInverseConv{dimensions}d")(4, 2, 3, indice_key="down")
    return ops.SparseSequential(down, back)(sparse(ops, leaf, dimensions)).features


def voxels(ops):
    return ops.Voxelization([0.5, 0.5, 0.5], [0, 0, 0, 2, 2, 2], max_num_points=4, max_voxels=30)


def point_voxels():
    return torch.randint(0, 3, (30, 3), dtype=torch.int32)


def attention(ops, leaf):
    module = ops.MultiScaleDeformableAttention(embed_dims=8, num_heads=2, num_levels=1, num_points=2)
    sizes = torch.tensor([[4, 5]])
    references = torch.rand(1, 3, 1, 2)
    return module(
        leaf(3, 1, 8),
        value=leaf(20, 1, 8),
        reference_points=references,
        spatial_shapes=sizes,
        level_start_index=torch.tensor([0]),
    )


def synchronized_batch_norm(ops, leaf):
    import torch.distributed as dist

    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    return ops.SyncBatchNorm(4)(leaf(3, 4, 5))


def pixel_groups(ops, leaf):
    labels = torch.zeros(6, 6, dtype=torch.int32)
    labels[1, 1], labels[4, 4] = 1, 2
    return ops.pixel_group(
        torch.rand(6, 6),
        torch.rand(6, 6) < 0.8,
        torch.rand(6, 6, 4),
        labels,
        (labels > 0).to(torch.uint8),
        3,
        5.0,
    )


def score_assembly(ops, leaf):
    return ops.assign_score_withk(
        leaf(1, 5, 4, 2), leaf(1, 9, 2, 3), leaf(1, 9, 2, 3), torch.randint(0, 9, (1, 5, 4)), "sum"
    )


def interpolation(ops, leaf):
    return ops.three_interpolate(
        leaf(2, 4, 9), torch.randint(0, 9, (2, 7, 3), dtype=torch.int32), torch.rand(2, 7, 3)
    )


def filters_in_orientations(ops, leaf):
    order = torch.stack([torch.randperm(72) + 1 for _ in range(8)], 1)
    return ops.active_rotated_filter(leaf(2, 3, 8, 3, 3), order.view(8, 3, 3, 8).int())


def bezier_curves():
    top = torch.tensor([1.0, 1.0, 2.0, 1.2, 4.0, 1.1, 6.0, 1.0])
    bottom = torch.tensor([6.0, 5.0, 4.0, 5.2, 2.0, 5.1, 1.0, 5.0])
    return torch.cat([torch.zeros(1), top, bottom])[None]


def deformable(ops, leaf, name):
    module = getattr(ops, name)(4, 6, 3, padding=1)
    return module(leaf(1, 4, 8, 8))


def offsets(channels):
    return torch.randn(1, channels, 8, 8)


CALLS = {
    "BezierAlign": lambda ops, leaf: ops.BezierAlign((3, 4), 1.0, 2)(leaf(1, 4, 8, 8), bezier_curves()),
    "BorderAlign": lambda ops, leaf: ops.BorderAlign(3)(
        leaf(1, 8, 2, 2), rois()[:, 1:].repeat(2, 1)[None] / 4
    ),
    "CARAFE": lambda ops, leaf: ops.CARAFE(3, 2, 2)(leaf(1, 4, 3, 3), leaf(1, 18, 6, 6)),
    "CARAFENaive": lambda ops, leaf: ops.CARAFENaive(3, 2, 2)(leaf(1, 4, 3, 3), leaf(1, 18, 6, 6)),
    "CARAFEPack": lambda ops, leaf: ops.CARAFEPack(4, 2)(leaf(1, 4, 5, 5)),
    "Conv2d": lambda ops, leaf: ops.Conv2d(4, 2, 3)(leaf(1, 4, 8, 8)),
    "ConvTranspose2d": lambda ops, leaf: ops.ConvTranspose2d(4, 2, 3)(leaf(1, 4, 8, 8)),
    "CornerPool": lambda ops, leaf: [
        ops.CornerPool(m)(leaf(1, 2, 4, 4)) for m in ("top", "bottom", "left", "right")
    ],
    "Correlation": lambda ops, leaf: ops.Correlation(max_displacement=2)(leaf(1, 4, 8, 8), leaf(1, 4, 8, 8)),
    "CrissCrossAttention": lambda ops, leaf: ops.CrissCrossAttention(8)(leaf(1, 8, 4, 4)),
    "DeformConv2d": lambda ops, leaf: ops.DeformConv2d(4, 6, 3, padding=1)(
        leaf(1, 4, 8, 8), leaf(1, 18, 8, 8)
    ),
    "DeformConv2dPack": lambda ops, leaf: deformable(ops, leaf, "DeformConv2dPack"),
    "DeformRoIPool": lambda ops, leaf: ops.DeformRoIPool((3, 3))(leaf(1, 4, 8, 8), rois(), leaf(2, 2, 3, 3)),
    "DeformRoIPoolPack": lambda ops, leaf: ops.DeformRoIPoolPack((3, 3), 4)(leaf(1, 4, 8, 8), rois()),
    "DynamicScatter": lambda ops, leaf: ops.DynamicScatter([1, 1, 1], [0, 0, 0, 3, 3, 3], True)(
        leaf(30, 4), point_voxels()
    )[0],
    "FusedBiasLeakyReLU": lambda ops, leaf: ops.FusedBiasLeakyReLU(4)(leaf(1, 4, 3, 3)),
    "GroupAll": lambda ops, leaf: ops.GroupAll()(clouds(), clouds(1), leaf(2, 4, 30)),
    "Linear": lambda ops, leaf: ops.Linear(4, 2)(leaf(3, 4)),
    "MaskedConv2d": lambda ops, leaf: ops.MaskedConv2d(4, 2, 3, padding=1)(
        image(), torch.rand(1, 8, 8) < 0.5
    ),
    "MaxPool2d": lambda ops, leaf: ops.MaxPool2d(2)(leaf(1, 4, 8, 8)),
    "ModulatedDeformConv2d": lambda ops, leaf: ops.ModulatedDeformConv2d(4, 6, 3, padding=1)(
        leaf(1, 4, 8, 8), leaf(1, 18, 8, 8), leaf(1, 9, 8, 8)
    ),
    "ModulatedDeformConv2dPack": lambda ops, leaf: deformable(ops, leaf, "ModulatedDeformConv2dPack"),
    "ModulatedDeformRoIPoolPack": lambda ops, leaf: ops.ModulatedDeformRoIPoolPack((3, 3), 4)(
        leaf(1, 4, 8, 8), rois()
    ),
    "MultiScaleDeformableAttention": attention,
    "PSAMask": lambda ops, leaf: [
        ops.PSAMask(kind, (3, 5))(leaf(1, 15, 4, 4)) for kind in ("collect", "distribute")
    ],
    "PointsSampler": lambda ops, leaf: ops.PointsSampler([4, 3], ["D-FPS", "F-FPS"], [10, -1])(
        clouds(), torch.randn(2, 4, 30)
    ),
    "PrRoIPool": lambda ops, leaf: ops.PrRoIPool(3)(leaf(1, 4, 8, 8), leaf.of(rois())),
    "QueryAndGroup": lambda ops, leaf: ops.QueryAndGroup(0.5, 4)(clouds(), clouds(5), leaf(2, 4, 30)),
    "RiRoIAlignRotated": lambda ops, leaf: ops.RiRoIAlignRotated((3, 3), 1.0, 2, 4)(
        leaf(1, 8, 8, 8), rotated_rois()
    ),
    "RoIAlign": lambda ops, leaf: [
        ops.RoIAlign(3, 1.0, 2, pool_mode=mode)(leaf(1, 4, 8, 8), rois()) for mode in ("avg", "max")
    ],
    "RoIAlignRotated": lambda ops, leaf: ops.RoIAlignRotated((3, 3), 1.0, 2)(
        leaf(1, 4, 8, 8), rotated_rois()
    ),
    "RoIAwarePool3d": lambda ops, leaf: [
        ops.RoIAwarePool3d(2, 8, mode)(boxes_3d(), torch.rand(40, 3) * 2, leaf(40, 3))
        for mode in ("max", "avg")
    ],
    "RoIPointPool3d": lambda ops, leaf: ops.RoIPointPool3d(5)(
        clouds() * 2, torch.randn(2, 30, 3), boxes_3d().expand(2, 2, 7)
    ),
    "RoIPool": lambda ops, leaf: ops.RoIPool(3)(leaf(1, 4, 8, 8), rois()),
    "SAConv2d": lambda ops, leaf: ops.SAConv2d(4, 4, 3, padding=1)(leaf(1, 4, 8, 8)),
    "SigmoidFocalLoss": lambda ops, leaf: ops.SigmoidFocalLoss(2.0, 0.25)(leaf(6, 5), torch.arange(6)),
    "SimpleRoIAlign": lambda ops, leaf: ops.SimpleRoIAlign(3, 1.0)(leaf(1, 4, 8, 8), rois()),
    "SoftmaxFocalLoss": lambda ops, leaf: ops.SoftmaxFocalLoss(2.0, 0.25)(leaf(5, 5), torch.arange(5)),
    "SparseConv2d": lambda ops, leaf: ops.SparseConv2d(3, 4, 3, stride=2)(sparse(ops, leaf, 2)).features,
    "SparseConv3d": lambda ops, leaf: ops.SparseConv3d(3, 4, 3, padding=1)(sparse(ops, leaf, 3)).features,
    "SparseConvTensor": lambda ops, leaf: sparse(ops, leaf, 3).dense(),
    "SparseConvTranspose2d": lambda ops, leaf: (
        ops.SparseConvTranspose2d(3, 4, 3)(sparse(ops, leaf, 2)).features
    ),
    "SparseConvTranspose3d": lambda ops, leaf: (
        ops.SparseConvTranspose3d(3, 4, 3)(sparse(ops, leaf, 3)).features
    ),
    "SparseInverseConv2d": lambda ops, leaf: inverse_convolution(ops, leaf, 2),
    "SparseInverseConv3d": lambda ops, leaf: inverse_convolution(ops, leaf, 3),
    "SparseMaxPool2d": lambda ops, leaf: ops.SparseMaxPool2d(2, stride=2)(sparse(ops, leaf, 2)).features,
    "SparseMaxPool3d": lambda ops, leaf: ops.SparseMaxPool3d(2, stride=2)(sparse(ops, leaf, 3)).features,
    "SparseModule": lambda ops, leaf: len(list(ops.SparseModule().parameters())),
    "SparseSequential": lambda ops, leaf: (
        ops.SparseSequential(ops.SubMConv3d(3, 4, 3), torch.nn.Tanh())(sparse(ops, leaf, 3)).features
    ),
    "SubMConv2d": lambda ops, leaf: ops.SubMConv2d(3, 4, 3)(sparse(ops, leaf, 2)).features,
    "SubMConv3d": lambda ops, leaf: ops.SubMConv3d(3, 4, 3)(sparse(ops, leaf, 3)).features,
    "SyncBatchNorm": synchronized_batch_norm,
    "TINShift": lambda ops, leaf: ops.TINShift()(leaf(2, 4, 6, 3), torch.tensor([[1, 0], [-1, 2]]).int()),
    "Voxelization": lambda ops, leaf: voxels(ops)(torch.rand(60, 4) * 2),
    "active_rotated_filter": filters_in_orientations,
    "assign_score_withk": score_assembly,
    "ball_query": lambda ops, leaf: ops.ball_query(0.0, 0.5, 4, clouds(), clouds(5)),
    "batched_nms": lambda ops, leaf: ops.batched_nms(
        rois()[:, 1:], scores(), torch.tensor([0, 0]), {"type": "nms", "iou_threshold": 0.5}
    ),
    "bbox_overlaps": lambda ops, leaf: ops.bbox_overlaps(rois()[:, 1:], rois()[:, 1:]),
    "bezier_align": lambda ops, leaf: ops.bezier_align(leaf(1, 4, 8, 8), bezier_curves(), 3, 1.0, 2),
    "bias_act": lambda ops, leaf: ops.bias_act(leaf(2, 4, 3), leaf(4), act="swish"),
    "border_align": lambda ops, leaf: ops.border_align(
        leaf(1, 8, 2, 2), rois()[:, 1:].repeat(2, 1)[None] / 4, 3
    ),
    "box_iou_quadri": lambda ops, leaf: ops.box_iou_quadri(quadrilaterals(), quadrilaterals()),
    "box_iou_rotated": lambda ops, leaf: ops.box_iou_rotated(rotated_boxes(), rotated_boxes()),
    "boxes_iou3d": lambda ops, leaf: ops.boxes_iou3d(boxes_3d(), boxes_3d()),
    "boxes_iou_bev": lambda ops, leaf: ops.boxes_iou_bev(rotated_boxes(), rotated_boxes()),
    "boxes_overlap_bev": lambda ops, leaf: ops.boxes_overlap_bev(boxes_3d(), boxes_3d()),
    "carafe": lambda ops, leaf: ops.carafe(leaf(1, 4, 3, 3), leaf(1, 9, 6, 6), 3, 1, 2),
    "carafe_naive": lambda ops, leaf: ops.carafe_naive(leaf(1, 4, 3, 3), leaf(1, 9, 6, 6), 3, 1, 2),
    "chamfer_distance": lambda ops, leaf: ops.chamfer_distance(leaf(2, 9, 2), leaf(2, 9, 2))[:2],
    "contour_expand": lambda ops, leaf: ops.contour_expand(
        (torch.rand(3, 6, 6) < 0.9).to(torch.uint8), torch.eye(6, dtype=torch.int32), 0, 1
    ),
    "conv2d": lambda ops, leaf: ops.conv2d(leaf(1, 4, 8, 8), leaf(2, 4, 3, 3)),
    "conv_transpose2d": lambda ops, leaf: ops.conv_transpose2d(leaf(1, 4, 8, 8), leaf(4, 2, 3, 3)),
    "convex_giou": lambda ops, leaf: ops.convex_giou(torch.rand(2, 18) * 5, quadrilaterals()),
    "convex_iou": lambda ops, leaf: ops.convex_iou(torch.rand(2, 18) * 5, quadrilaterals()),
    "deform_conv2d": lambda ops, leaf: ops.deform_conv2d(
        leaf(1, 4, 8, 8), leaf(1, 18, 8, 8), leaf(6, 4, 3, 3), 1, 1, 1, 1, 1
    ),
    "deform_roi_pool": lambda ops, leaf: ops.deform_roi_pool(leaf(1, 4, 8, 8), rois(), None, (3, 3)),
    "diff_iou_rotated_2d": lambda ops, leaf: ops.diff_iou_rotated_2d(
        leaf.of(rotated_boxes()[None, :1]), leaf.of(rotated_boxes()[None, 1:2])
    ),
    "diff_iou_rotated_3d": lambda ops, leaf: ops.diff_iou_rotated_3d(
        leaf.of(boxes_3d()[None, :1]), leaf.of(boxes_3d()[None, 1:])
    ),
    "dynamic_scatter": lambda ops, leaf: ops.dynamic_scatter(leaf(30, 4), point_voxels(), "max")[0],
    "filter2d": lambda ops, leaf: ops.filter2d(leaf(1, 4, 8, 8), torch.rand(3, 3)),
    "filtered_lrelu": lambda ops, leaf: ops.filtered_lrelu(
        leaf(1, 4, 8, 8), torch.rand(4), torch.rand(4), leaf(4), up=2, down=2, padding=3
    ),
    "furthest_point_sample": lambda ops, leaf: ops.furthest_point_sample(clouds(), 5),
    "furthest_point_sample_with_dist": lambda ops, leaf: ops.furthest_point_sample_with_dist(
        torch.rand(2, 9, 9), 5
    ),
    "fused_bias_leakyrelu": lambda ops, leaf: ops.fused_bias_leakyrelu(leaf(2, 4, 3), leaf(4)),
    "gather_points": lambda ops, leaf: ops.gather_points(leaf(2, 4, 9), torch.randint(0, 9, (2, 5)).int()),
    "get_compiler_version": lambda ops, leaf: len(ops.get_compiler_version()),
    "get_compiling_cuda_version": lambda ops, leaf: len(ops.get_compiling_cuda_version()),
    "get_onnxruntime_op_path": lambda ops, leaf: len(ops.get_onnxruntime_op_path()),
    "grouping_operation": lambda ops, leaf: ops.grouping_operation(
        leaf(2, 4, 9), torch.randint(0, 9, (2, 5, 3)).int()
    ),
    "knn": lambda ops, leaf: ops.knn(3, clouds(), clouds(5)),
    "masked_conv2d": lambda ops, leaf: ops.masked_conv2d(
        image(), torch.rand(1, 8, 8) < 0.5, torch.randn(2, 4, 3, 3), torch.randn(2), 1
    ),
    "min_area_polygons": lambda ops, leaf: ops.min_area_polygons(torch.rand(2, 18) * 5),
    "modulated_deform_conv2d": lambda ops, leaf: ops.modulated_deform_conv2d(
        leaf(1, 4, 8, 8), leaf(1, 18, 8, 8), leaf(1, 9, 8, 8), leaf(6, 4, 3, 3), leaf(6), 1, 1, 1, 1, 1
    ),
    "nms": lambda ops, leaf: ops.nms(rois()[:, 1:], scores(), 0.5),
    "nms3d": lambda ops, leaf: ops.nms3d(boxes_3d(), scores(), 0.5),
    "nms3d_normal": lambda ops, leaf: ops.nms3d_normal(boxes_3d(), scores(), 0.5),
    "nms_bev": lambda ops, leaf: ops.nms_bev(rotated_boxes(), scores(3), 0.5),
    "nms_match": lambda ops, leaf: ops.nms_match(torch.cat([rois()[:, 1:], scores()[:, None]], 1), 0.5),
    "nms_normal_bev": lambda ops, leaf: ops.nms_normal_bev(rotated_boxes(), scores(3), 0.5),
    "nms_quadri": lambda ops, leaf: ops.nms_quadri(quadrilaterals(), scores(), 0.5, torch.tensor([0, 0])),
    "nms_rotated": lambda ops, leaf: ops.nms_rotated(
        rotated_boxes(), scores(3), 0.5, torch.tensor([0, 0, 1])
    ),
    "pixel_group": pixel_groups,
    "point_sample": lambda ops, leaf: ops.point_sample(leaf(1, 4, 8, 8), torch.rand(1, 5, 2)),
    "points_in_boxes_all": lambda ops, leaf: ops.points_in_boxes_all(
        clouds() * 2, boxes_3d().expand(2, 2, 7)
    ),
    "points_in_boxes_cpu": lambda ops, leaf: ops.points_in_boxes_cpu(
        clouds() * 2, boxes_3d().expand(2, 2, 7)
    ),
    "points_in_boxes_part": lambda ops, leaf: ops.points_in_boxes_part(
        clouds() * 2, boxes_3d().expand(2, 2, 7)
    ),
    "points_in_polygons": lambda ops, leaf: ops.points_in_polygons(torch.rand(9, 2) * 5, quadrilaterals()),
    "prroi_pool": lambda ops, leaf: ops.prroi_pool(leaf(1, 4, 8, 8), leaf.of(rois()), (3, 3), 1.0),
    "rel_roi_point_to_rel_img_point": lambda ops, leaf: ops.rel_roi_point_to_rel_img_point(
        rois(), torch.rand(2, 5, 2), (8, 8)
    ),
    "riroi_align_rotated": lambda ops, leaf: ops.riroi_align_rotated(
        leaf(1, 8, 8, 8), rotated_rois(), (3, 3), 1.0, 2, 4, False
    ),
    "roi_align": lambda ops, leaf: ops.roi_align(leaf(1, 4, 8, 8), rois(), 3, 1.0, 2, "avg", True),
    "roi_align_rotated": lambda ops, leaf: ops.roi_align_rotated(
        leaf(1, 4, 8, 8), rotated_rois(), (3, 3), 1.0, 2
    ),
    "roi_pool": lambda ops, leaf: ops.roi_pool(leaf(1, 4, 8, 8), rois(), 3),
    "rotated_feature_align": lambda ops, leaf: ops.rotated_feature_align(
        leaf(1, 4, 3, 3), rotated_boxes()[0].expand(1, 3, 3, 5).contiguous(), 0.5, 5
    ),
    "scatter_nd": lambda ops, leaf: ops.scatter_nd(torch.tensor([[0, 1], [2, 0]]), leaf(2, 3), [3, 2, 3]),
    "sigmoid_focal_loss": lambda ops, leaf: ops.sigmoid_focal_loss(
        leaf(6, 5), torch.arange(6), 2.0, 0.25, torch.rand(5), "sum"
    ),
    "soft_nms": lambda ops, leaf: ops.soft_nms(rois()[:, 1:], scores(), 0.5),
    "softmax_focal_loss": lambda ops, leaf: ops.softmax_focal_loss(
        leaf(5, 5), torch.arange(5), 2.0, 0.25, None, "sum"
    ),
    "three_interpolate": interpolation,
    "three_nn": lambda ops, leaf: ops.three_nn(clouds(5), clouds()),
    "tin_shift": lambda ops, leaf: ops.tin_shift(leaf(2, 4, 6, 3), torch.tensor([[1, 0], [-1, 2]]).int()),
    "upfirdn2d": lambda ops, leaf: ops.upfirdn2d(leaf(1, 4, 8, 8), torch.rand(3, 3), 2, 1),
    "upsample2d": lambda ops, leaf: ops.upsample2d(leaf(1, 4, 8, 8), torch.rand(4, 4)),
    "voxelization": lambda ops, leaf: ops.voxelization(
        torch.rand(60, 4) * 2, [0.5, 0.5, 0.5], [0, 0, 0, 2, 2, 2], 4, 30
    ),
}


@pytest.fixture(scope="module")
def ops():
    """``mmcv.ops`` without compiled operators."""
    portable = Patcher(backend="portable").add(mmcv_patches.PortableExtension, options={"force": True})
    with portable.add(mmcv_patches.DeviceNeutralOperators):
        import mmcv.ops

        yield mmcv.ops
    if torch.distributed.is_initialized():  # by SyncBatchNorm
        torch.distributed.destroy_process_group()


def floating_tensors(output):
    if isinstance(output, torch.Tensor):
        return [output] if output.is_floating_point() else []
    if isinstance(output, (list, tuple)):
        return [tensor for part in output for tensor in floating_tensors(part)]
    return []


def test_the_table_has_every_public_name(ops):
    assert set(ops.__all__) <= CALLS.keys()


@pytest.mark.parametrize("name", CALLS)
def test_it_can_be_called_and_its_gradient_taken(ops, name):
    if name not in ops.__all__:
        pytest.skip(f"mmcv {mmcv_patches.mmcv_version.version} has no {name}")
    leaf = Leaves()
    tensors = floating_tensors(CALLS[name](ops, leaf))
    assert all(torch.isfinite(tensor).all() for tensor in tensors)
    if leaf.tensors:
        sum((tensor * torch.randn_like(tensor)).sum() for tensor in tensors).backward()
    for tensor in leaf.tensors:
        assert tensor.grad is not None and torch.isfinite(tensor.grad).all() and tensor.grad.any()


#: Where upstream's own Python code does something else with tensors that are not contiguous.
NOT_FOR_STRIDED = {
    "PrRoIPool": "gives them no gradient: it asks the contiguous copy whether it requires one",
    "gather_points": "refuses them",
    "prroi_pool": "gives them no gradient: it asks the contiguous copy whether it requires one",
    "three_interpolate": "refuses them",
}


@pytest.mark.parametrize("name", sorted(CALLS.keys() - NOT_FOR_STRIDED.keys()))
def test_tensors_that_are_not_contiguous_are_taken_for_what_they_are(ops, name):
    if name not in ops.__all__:
        pytest.skip(f"mmcv {mmcv_patches.mmcv_version.version} has no {name}")

    def run(leaf):
        torch.manual_seed(torch.initial_seed())  # the same numbers for both
        tensors = floating_tensors(CALLS[name](ops, leaf))
        if leaf.tensors:
            sum((tensor * torch.randn_like(tensor)).sum() for tensor in tensors).backward()
        return [*tensors, *(tensor.grad for tensor in leaf.tensors)]

    for found, expected in zip(run(StridedLeaves()), run(Leaves())):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
