"""PseudoSampler of mmdet3d 1.x."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from mmdet_patches import PseudoSampler  # noqa: E402
from patcher_core import LibraryVersion, Patcher  # noqa: E402
from patcher_testing.numerics import assert_faults_are_caught, assert_same_numerics  # noqa: E402

if not LibraryVersion("mmdet3d", has_metric=">=1.1.0").has_metric:
    pytest.skip("mmdet3d before 1.1 uses the sampler of mmdet", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings("ignore")  # of the libraries at import


def test_every_part_of_the_result_is_that_of_upstream() -> None:
    from mmdet3d.models.task_modules.samplers import PseudoSampler as Upstream

    def call(sample):
        def sampled(gt_inds, priors, truths):
            assigned = SimpleNamespace(gt_inds=gt_inds, labels=gt_inds - 1)
            truths = SimpleNamespace(bboxes_3d=truths)
            return vars(sample(Upstream(), assigned, SimpleNamespace(priors=priors), truths))

        return sampled

    def inputs(draw):
        count = draw.batch() * 7
        return (
            draw.integers(-1, 4, count),
            draw.tensor(count, 7),
            draw.tensor(3, 7, grad=False),
        )

    original = Upstream.sample
    with Patcher().add(PseudoSampler):
        replacement = Upstream.sample
    assert replacement is not original
    assert_same_numerics(call(replacement), call(original), inputs)
    assert_faults_are_caught(call(original), inputs)
