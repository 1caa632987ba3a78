"""The sigmoid focal loss on the simulated NPU, from the intended operators, against binary cross entropy."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from torch.nn import functional as F  # noqa: E402

pytestmark = [pytest.mark.simulated_npu(group="mmcv"), pytest.mark.usefixtures("random_seed")]


def by_cross_entropy(logits, target, gamma, alpha, weight, reduction):
    """The loss by torch's binary cross entropy over logits, as (1 - p of the truth) ** gamma times it."""
    positive = F.one_hot(target, logits.shape[1] + 1)[:, :-1].to(logits.dtype)
    cross_entropy = F.binary_cross_entropy_with_logits(logits, positive, reduction="none")
    missed = torch.where(positive > 0, torch.sigmoid(-logits), torch.sigmoid(logits))
    loss = (positive * alpha + (1 - positive) * (1 - alpha)) * missed**gamma * cross_entropy
    if weight is not None:
        loss = loss * torch.cat([weight, weight.new_ones(1)])[target][:, None]
    return {"none": loss, "sum": loss.sum(), "mean": loss.sum() / len(logits)}[reduction]


def loss_and_gradient(function, logits, target, *settings):
    logits = logits.detach().clone().requires_grad_()
    loss = function(logits, target, *settings)
    (gradient,) = torch.autograd.grad((loss * loss).sum(), logits)
    return loss, gradient


def compare(ops, simulated_npu, logits, target, *settings):
    """The NPU with the formula on the CPU; gives back what was recorded on the NPU."""
    on_npu = [value.npu() if isinstance(value, torch.Tensor) else value for value in settings]
    with simulated_npu.record_operators() as recorded:
        found = loss_and_gradient(ops.sigmoid_focal_loss, logits.npu(), target.npu(), *on_npu)
    for ours, expected in zip(found, loss_and_gradient(by_cross_entropy, logits, target, *settings)):
        torch.testing.assert_close(ours.cpu(), expected, rtol=1e-4, atol=1e-5)
    return recorded


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_class_indices_with_background_run_on_mx_driving(mmcv_ops, simulated_npu, reduction) -> None:
    logits, target = torch.randn(12, 5), torch.randint(0, 6, (12,))
    recorded = compare(mmcv_ops, simulated_npu, logits, target, 2.0, 0.25, None, reduction)
    recorded.assert_ran("sigmoid_focal_loss_cann", times=1)
    recorded.assert_ran("sigmoid_focal_loss_backward_cann", times=1)


@pytest.mark.parametrize(
    ("dtype", "weighted"), [(torch.float32, True), (torch.float64, False)], ids=["weighted", "float64"]
)
def test_what_mx_driving_does_not_take_runs_in_plain_pytorch(
    mmcv_ops, simulated_npu, dtype, weighted
) -> None:
    logits, target = torch.randn(12, 5, dtype=dtype), torch.randint(0, 6, (12,))
    weight = torch.rand(5, dtype=dtype) if weighted else None
    recorded = compare(mmcv_ops, simulated_npu, logits, target, 2.0, 0.25, weight, "mean")
    recorded.assert_did_not_run("sigmoid_focal_loss_cann")
    recorded.assert_did_not_run("sigmoid_focal_loss_backward_cann")
