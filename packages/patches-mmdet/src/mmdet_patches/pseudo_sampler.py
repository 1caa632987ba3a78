"""The sampler of dense detectors, which takes every assigned prior."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping

from patcher_core import AtomicPatch, LibraryVersion, Patch

if TYPE_CHECKING:
    from torch import Tensor

_mmdet_version = LibraryVersion("mmdet", is_v2x=">=2,<3.0.0rc0")


class PseudoSampler(Patch):
    """``PseudoSampler.sample`` of mmdet and mmdet3d without ``Tensor.unique``, which has nothing to do in it.

    The positions of a mask's true values are different from each other and in order as they are. They stay index
    tensors: what mmdet does with a ``SamplingResult`` differs between indices and masks.
    """

    name = "pseudo_sampler"
    legacy_name = "pseudo_sampler"
    library = "mmdet"
    why = "Tensor.unique sorts, and on an NPU waits for the device, twice for every image"
    upstream = (
        "mmdet/core/bbox/samplers/pseudo_sampler.py, mmdet 2.14 to 2.28;"
        " mmdet/models/task_modules/samplers/pseudo_sampler.py, mmdet 3.0 to 3.3;"
        " mmdet3d/models/task_modules/samplers/pseudosample.py, mmdet3d 1.1 to 1.4"
    )

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        if _mmdet_version.is_v2x:
            return [
                AtomicPatch(
                    "mmdet.core.bbox.samplers.pseudo_sampler.PseudoSampler.sample", sample_from_bounding_boxes
                )
            ]
        samplers = "models.task_modules.samplers"
        return [
            AtomicPatch(f"mmdet.{samplers}.pseudo_sampler.PseudoSampler.sample", sample_from_instances),
            AtomicPatch(
                f"mmdet3d.{samplers}.pseudosample.PseudoSampler.sample",
                sample_from_3d_instances,
                requires="mmdet3d>=1.1.0,<1.5",
            ),
        ]


def sample_from_bounding_boxes(
    self: Any, assign_result: Any, bboxes: Tensor, gt_bboxes: Tensor, *args: Any, **kwargs: Any
) -> Any:
    """mmdet 2.x.

    Args:
        assign_result: ``gt_inds`` (n,) int64: 0 for background, k for the k-th ground truth, -1 for ignored.
        bboxes: (n, 4) priors.
        gt_bboxes: (m, 4).

    Returns:
        mmdet's ``SamplingResult`` of the foreground and the background, each in the order of the priors.
    """
    from mmdet.core.bbox.samplers.sampling_result import SamplingResult

    return SamplingResult(
        _positions(assign_result.gt_inds > 0),
        _positions(assign_result.gt_inds == 0),
        bboxes,
        gt_bboxes,
        assign_result,
        _no_ground_truth(bboxes),
    )


def sample_from_instances(
    self: Any, assign_result: Any, pred_instances: Any, gt_instances: Any, *args: Any, **kwargs: Any
) -> Any:
    """mmdet 3.x: as :func:`sample_from_bounding_boxes`, from ``pred_instances.priors`` and ``gt_instances.bboxes``."""
    from mmdet.models.task_modules.samplers.sampling_result import SamplingResult

    return _sampled(SamplingResult, assign_result, pred_instances.priors, gt_instances.bboxes)


def sample_from_3d_instances(
    self: Any, assign_result: Any, pred_instances: Any, gt_instances: Any, *args: Any, **kwargs: Any
) -> Any:
    """mmdet3d 1.x: as :func:`sample_from_instances`, from ``gt_instances.bboxes_3d``."""
    from mmdet3d.models.task_modules.samplers import SamplingResult

    return _sampled(SamplingResult, assign_result, pred_instances.priors, gt_instances.bboxes_3d)


def _sampled(sampling_result: Any, assign_result: Any, priors: Any, gt_bboxes: Any) -> Any:
    return sampling_result(
        pos_inds=_positions(assign_result.gt_inds > 0),
        neg_inds=_positions(assign_result.gt_inds == 0),
        priors=priors,
        gt_bboxes=gt_bboxes,
        assign_result=assign_result,
        gt_flags=_no_ground_truth(priors),
        avg_factor_with_neg=False,
    )


def _positions(mask: Tensor) -> Tensor:
    return mask.nonzero().squeeze(-1)


def _no_ground_truth(priors: Tensor) -> Tensor:
    """(n,) uint8: none of the priors is a ground truth that was added to them."""
    import torch

    return priors.new_zeros(priors.shape[0], dtype=torch.uint8)
