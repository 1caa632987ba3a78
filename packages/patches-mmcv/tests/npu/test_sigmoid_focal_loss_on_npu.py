"""The sigmoid focal loss on the simulated NPU: the values and gradients of the CPU, from the intended operators."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.simulated_npu(group="mmcv"), pytest.mark.usefixtures("random_seed")]


def loss_and_gradient(ops, logits, target, *settings):
    logits = logits.detach().clone().requires_grad_()
    loss = ops.sigmoid_focal_loss(logits, target, *settings)
    (gradient,) = torch.autograd.grad((loss * loss).sum(), logits)
    return loss, gradient


def compare(ops, simulated_npu, logits, target, *settings):
    """Both devices; gives back what was recorded on the NPU."""
    on_npu = [value.npu() if isinstance(value, torch.Tensor) else value for value in settings]
    with simulated_npu.record_operators() as recorded:
        found = loss_and_gradient(ops, logits.npu(), target.npu(), *on_npu)
    for ours, expected in zip(found, loss_and_gradient(ops, logits, target, *settings)):
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
