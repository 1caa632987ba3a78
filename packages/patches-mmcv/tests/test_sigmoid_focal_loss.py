"""SigmoidFocalLoss on the installed mmcv, against binary cross entropy over logits."""

from __future__ import annotations

import importlib.util

import pytest

torch = pytest.importorskip("torch")
from torch.nn import functional as F  # noqa: E402

if importlib.util.find_spec("mmcv") is None:
    pytest.skip("mmcv is not installed in this environment", allow_module_level=True)

# Upstream's own warnings, about torch and pkg_resources, are not what is tested here.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

import mmcv_patches  # noqa: E402
from patcher_core import Patcher, PatchStatus  # noqa: E402


@pytest.fixture(scope="module")
def focal_loss():
    """mmcv's function, patched."""
    patcher = Patcher(backend="portable").add(mmcv_patches.PortableExtension, mmcv_patches.SigmoidFocalLoss)
    with patcher:
        statuses = [result.status for result in patcher.report if "FocalLoss" in result.name]
        assert statuses == [PatchStatus.APPLIED] * 2
        from mmcv.ops import sigmoid_focal_loss

        yield sigmoid_focal_loss


def by_cross_entropy(logits, target, gamma, alpha, weight, reduction):
    positive = F.one_hot(target, logits.shape[1] + 1)[:, :-1].to(logits.dtype)
    cross_entropy = F.binary_cross_entropy_with_logits(logits, positive, reduction="none")
    missed = torch.where(positive > 0, torch.sigmoid(-logits), torch.sigmoid(logits))
    loss = (positive * alpha + (1 - positive) * (1 - alpha)) * missed**gamma * cross_entropy
    if weight is not None:
        loss = loss * torch.cat([weight, weight.new_ones(1)])[target][:, None]
    return {"none": loss, "sum": loss.sum(), "mean": loss.sum() / len(logits)}[reduction]


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-5)])
def test_loss_and_gradient_for_labels_of_which_the_last_is_background(
    focal_loss, dtype, tolerance, weighted, reduction
):
    logits = torch.randn(20, 6, dtype=dtype, requires_grad=True)
    target = torch.randint(0, 7, (20,))
    weight = torch.rand(6, dtype=dtype) if weighted else None
    results = []
    for function in (focal_loss, by_cross_entropy):
        loss = function(logits, target, 1.5, 0.3, weight, reduction)
        results.append((loss, *torch.autograd.grad((loss * loss).sum(), logits)))
    for ours, theirs in zip(*results):
        assert ours.dtype is dtype
        torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


def test_the_module_of_mmcv_uses_it(focal_loss):
    from mmcv.ops import SigmoidFocalLoss

    logits, target = torch.randn(5, 3), torch.tensor([0, 3, 1, 2, 3])
    expected = by_cross_entropy(logits, target, 2.0, 0.25, None, "mean")
    torch.testing.assert_close(SigmoidFocalLoss(2.0, 0.25)(logits, target), expected)


def test_a_second_derivative_is_refused_as_upstream_refuses_it(focal_loss):
    logits = torch.randn(4, 3, requires_grad=True)
    loss = focal_loss(logits, torch.tensor([0, 1, 2, 3]), 2.0, 0.25, None, "sum")
    (gradient,) = torch.autograd.grad(loss * loss, logits, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


@pytest.mark.parametrize(
    ("target", "reduction", "error", "message"),
    [
        (torch.tensor([0, 5, 1]), "mean", RuntimeError, "found the label 5"),
        (torch.tensor([0, 1, 1], dtype=torch.int32), "mean", AssertionError, "labels must be int64"),
        (torch.tensor([0, 1, 1]), "median", AssertionError, "reduction must be one of"),
    ],
)
def test_wrong_arguments_are_named(focal_loss, target, reduction, error, message):
    with pytest.raises(error, match=message):
        focal_loss(torch.randn(3, 4), target, 2.0, 0.25, None, reduction)
