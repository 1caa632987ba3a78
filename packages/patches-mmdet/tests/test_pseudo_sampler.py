"""PseudoSampler: what mmdet makes of the sampling result is the same, losses included."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from mmdet_patches import PseudoSampler  # noqa: E402
from patcher_core import Patcher, get_version  # noqa: E402
from patcher_testing.numerics import assert_faults_are_caught, assert_same_numerics  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # mmdet's own

IS_V2 = (get_version("mmdet") or "").startswith("2.")


def sampler_class():
    if IS_V2:
        from mmdet.core.bbox.samplers import PseudoSampler as upstream
    else:
        from mmdet.models.task_modules.samplers import PseudoSampler as upstream
    return upstream


def sample_arguments(gt_inds, priors, truths):
    """As mmdet's heads call ``sample``."""
    labels = torch.where(gt_inds > 0, gt_inds % 3, -torch.ones_like(gt_inds))
    assigned = SimpleNamespace(gt_inds=gt_inds, labels=labels)
    if IS_V2:
        return assigned, priors, truths
    return assigned, SimpleNamespace(priors=priors), SimpleNamespace(bboxes=truths)


def call(sample):
    def sampled(gt_inds, priors, truths):
        result = sample(sampler_class()(), *sample_arguments(gt_inds, priors, truths))
        return {name: value for name, value in vars(result).items() if value is not None}

    return sampled


def inputs(draw):
    count = draw.batch() * 7
    truths = draw.tensor(3, 4, grad=False)
    return draw.integers(-1, 4, count), draw.tensor(count, 4), truths


def original_and_replacement():
    with Patcher().add(PseudoSampler):
        replacement = sampler_class().sample
    return sampler_class().sample, replacement


def test_every_part_of_the_result_is_that_of_upstream() -> None:
    original, replacement = original_and_replacement()
    assert replacement is not original
    assert_same_numerics(call(replacement), call(original), inputs)
    assert_faults_are_caught(call(original), inputs)


@pytest.mark.parametrize(
    "gt_inds",
    [[0, 0, 0], [-1, -1], [1, 2, 3, 1], []],
    ids=["no foreground", "all ignored", "no background", "empty"],
)
def test_a_result_may_be_empty(gt_inds) -> None:
    original, replacement = original_and_replacement()
    arguments = torch.tensor(gt_inds, dtype=torch.int64), torch.rand(len(gt_inds), 4), torch.rand(3, 4)
    expected, found = call(original)(*arguments), call(replacement)(*arguments)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_unique_is_not_called(monkeypatch) -> None:
    monkeypatch.setattr(torch.Tensor, "unique", lambda *args, **kwargs: pytest.fail("unique was called"))
    with Patcher().add(PseudoSampler):
        call(sampler_class().sample)(torch.tensor([0, 1, -1, 2]), torch.rand(4, 4), torch.rand(3, 4))


def retina_head():
    from importlib import import_module

    settings = {
        "type": "RetinaHead",
        "num_classes": 5,
        "in_channels": 8,
        "feat_channels": 8,
        "stacked_convs": 1,
        "anchor_generator": {
            "type": "AnchorGenerator",
            "octave_base_scale": 4,
            "scales_per_octave": 3,
            "ratios": [0.5, 1.0, 2.0],
            "strides": [8, 16],
        },
        "train_cfg": {
            "assigner": {"type": "MaxIoUAssigner", "pos_iou_thr": 0.5, "neg_iou_thr": 0.4, "min_pos_iou": 0},
            "sampler": {"type": "PseudoSampler"},
            "allowed_border": -1,
            "pos_weight": -1,
            "debug": False,
        },
    }
    if IS_V2:
        config = import_module("mmcv").Config({"head": settings})
        return import_module("mmdet.models").build_head(config.head)
    config = import_module("mmengine.config").Config({"head": settings})
    import_module("mmdet.models")
    return import_module("mmdet.registry").MODELS.build(config.head)


def test_a_dense_head_has_the_same_losses_and_gradients() -> None:
    head = retina_head()
    features = [torch.randn(2, 8, size, size) for size in (16, 8)]
    corners = torch.rand(2, 4, 2) * 80
    boxes = torch.cat([corners, corners + 20 + torch.rand(2, 4, 2) * 30], -1)
    labels = torch.randint(0, 5, (2, 4))
    shape = (128, 128, 3) if IS_V2 else (128, 128)
    metas = [{"img_shape": shape, "pad_shape": shape, "scale_factor": 1.0}] * 2

    def step():
        head.zero_grad()
        outputs = head(features)
        if IS_V2:
            losses = head.loss(*outputs, list(boxes), list(labels), metas)
        else:
            from mmengine.structures import InstanceData

            truths = [InstanceData(bboxes=b, labels=one) for b, one in zip(boxes, labels)]
            losses = head.loss_by_feat(*outputs, truths, metas)
        total = sum(sum(loss) for loss in losses.values())
        total.backward()
        return losses, {name: parameter.grad.clone() for name, parameter in head.named_parameters()}

    expected = step()
    with Patcher().add(PseudoSampler) as patcher:
        assert patcher.report.applied
        found = step()
    assert all(float(sum(loss)) > 0 for loss in expected[0].values())
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
