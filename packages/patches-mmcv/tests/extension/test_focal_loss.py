"""Focal loss against a formula over logits, and its derivative by autograd in float64."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")
from torch.nn import functional as F  # noqa: E402

DTYPES = [torch.float64, torch.float32, torch.float16]
SHAPES = [(7, 5), (1, 1), (0, 4), (33, 80)]


def sigmoid_focal_loss(logits, target, weight, gamma, alpha):
    """By binary cross entropy over logits: no probability is formed that could round to 1."""
    positive = F.one_hot(target, logits.shape[1] + 1)[:, :-1].to(logits.dtype)
    cross_entropy = F.binary_cross_entropy_with_logits(logits, positive, reduction="none")
    focus = positive * torch.sigmoid(-logits) ** gamma + (1 - positive) * torch.sigmoid(logits) ** gamma
    loss = (positive * alpha + (1 - positive) * (1 - alpha)) * focus * cross_entropy
    return loss * torch.cat([weight, torch.ones(1, dtype=weight.dtype)])[target][:, None]


def softmax_focal_loss(logits, target, weight, gamma, alpha):
    """By log_softmax; negative labels are ignored."""
    label = target.clamp(min=0)[:, None]
    log_p = logits.log_softmax(1).gather(1, label)[:, 0]
    loss = -alpha * (1 - log_p.exp()) ** gamma * log_p * weight[label[:, 0]]
    return torch.where(target >= 0, loss, torch.zeros_like(loss))


def weights(weighted, classes, dtype):
    return torch.rand(classes, dtype=dtype) + 0.5 if weighted else torch.empty(0, dtype=dtype)


def weights_or_ones(weight, classes):
    return weight.double() if weight.numel() else torch.ones(classes, dtype=torch.float64)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("gamma", [2.0, 0.0, 0.5])
def test_sigmoid_focal_loss_and_gradient(extension, assert_matches, shape, dtype, weighted, gamma):
    logits, alpha = (2 * torch.randn(shape)).to(dtype), 0.25
    target = torch.randint(0, shape[1] + 1, shape[:1])
    weight = weights(weighted, shape[1], dtype)
    exact = logits.double().requires_grad_()
    expected = sigmoid_focal_loss(exact, target, weights_or_ones(weight, shape[1]), gamma, alpha)
    (slope,) = torch.autograd.grad(expected.sum(), exact)

    output, grad_input = torch.full_like(logits, math.nan), torch.full_like(logits, math.nan)
    extension.sigmoid_focal_loss_forward(logits, target, weight, output, gamma=gamma, alpha=alpha)
    extension.sigmoid_focal_loss_backward(logits, target, weight, grad_input, gamma=gamma, alpha=alpha)
    assert_matches(output, expected)
    assert_matches(grad_input, slope)


@pytest.mark.parametrize("label", [0, 1])
@pytest.mark.parametrize("gamma", [2.0, 0.0, 0.5])
def test_the_loss_of_confident_scores_keeps_its_digits(extension, gamma, label):
    logits = torch.linspace(-20, 20, 401)[:, None]
    target = torch.full((len(logits),), label)  # label 1 of one class is the background
    exact = logits.double().requires_grad_()
    expected = sigmoid_focal_loss(exact, target, torch.ones(1, dtype=torch.float64), gamma, 0.25)
    (slope,) = torch.autograd.grad(expected.sum(), exact)
    output, grad_input = torch.empty_like(logits), torch.empty_like(logits)
    extension.sigmoid_focal_loss_forward(logits, target, torch.empty(0), output, gamma, 0.25)
    extension.sigmoid_focal_loss_backward(logits, target, torch.empty(0), grad_input, gamma, 0.25)
    torch.testing.assert_close(output.double(), expected, rtol=1e-5, atol=0)
    torch.testing.assert_close(grad_input.double(), slope, rtol=1e-5, atol=0)


def test_a_saturated_sigmoid_costs_what_the_kernel_says_and_not_infinity(extension):
    logits = torch.tensor([[200.0, -200.0]])
    output = torch.empty(1, 2)
    extension.sigmoid_focal_loss_forward(logits, torch.tensor([1]), torch.empty(0), output, 2.0, 0.25)
    largest = -math.log(torch.finfo(torch.float32).tiny)
    torch.testing.assert_close(output, torch.tensor([[0.75 * largest, 0.25 * largest]]))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("gamma", [2.0, 0.0, 0.5])
def test_softmax_focal_loss_and_gradient(extension, assert_matches, shape, dtype, weighted, gamma):
    logits, alpha = torch.randn(shape).to(dtype), 0.4
    target = torch.randint(-1, shape[1], shape[:1])
    weight = weights(weighted, shape[1], dtype)
    exact = logits.double().requires_grad_()
    expected = softmax_focal_loss(exact, target, weights_or_ones(weight, shape[1]), gamma, alpha)
    if shape[1] > 1:  # the gradient of a softmax over one class is 0, by autograd 0 times infinity
        (slope,) = torch.autograd.grad(expected.sum(), exact)
    else:
        slope = torch.zeros_like(exact)

    softmax = exact.detach().softmax(1).to(dtype)
    output, buff = softmax.new_full(shape[:1], math.nan), softmax.new_full(shape[:1], math.nan)
    grad_input = torch.full_like(softmax, math.nan)
    extension.softmax_focal_loss_forward(softmax, target, weight, output, gamma=gamma, alpha=alpha)
    extension.softmax_focal_loss_backward(softmax, target, weight, buff, grad_input, gamma, alpha)
    assert_matches(output, expected, scale=4)
    assert_matches(grad_input, slope, scale=4)
    assert torch.isfinite(buff).all()


@pytest.mark.parametrize("name", ["sigmoid_focal_loss_forward", "softmax_focal_loss_forward"])
def test_a_label_beyond_the_background_is_an_error(extension, name):
    with pytest.raises(RuntimeError, match=r"found the label 5, expected labels in 0\.\.4"):
        getattr(extension, name)(
            torch.rand(2, 4), torch.tensor([0, 5]), torch.empty(0), torch.empty(2, 4), 2.0, 0.25
        )


def test_rows_without_a_class_cost_nothing_in_softmax_focal_loss(extension):
    softmax, target = torch.rand(3, 4), torch.tensor([-1, 4, -1])
    output, buff, grad_input = torch.ones(3), torch.ones(3), torch.ones(3, 4)
    extension.softmax_focal_loss_forward(softmax, target, torch.rand(4), output, 2.0, 0.25)
    extension.softmax_focal_loss_backward(softmax, target, torch.rand(4), buff, grad_input, 2.0, 0.25)
    assert not output.any() and not buff.any() and not grad_input.any()
