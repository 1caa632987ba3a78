"""Batch normalization in steps against torch's batch_norm and its autograd, in float64."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from torch.nn import functional as F  # noqa: E402

DTYPES = [torch.float32, torch.float16]
SHAPES = [(4, 3, 5), (2, 1, 1), (1, 4, 7)]


def run_steps(extension, x, weight, bias, running, eps, momentum, group_size=1):
    channels = x.shape[1]
    mean, var, std = torch.zeros(channels), torch.zeros(channels), torch.zeros(channels)
    norm, output = torch.zeros(x.shape), torch.full_like(x, 7)
    extension.sync_bn_forward_mean(x, mean)
    extension.sync_bn_forward_var(x, mean, var)
    extension.sync_bn_forward_output(
        x,
        mean,
        var,
        weight,
        bias,
        *running,
        norm,
        std,
        output,
        eps=eps,
        momentum=momentum,
        group_size=group_size,
    )
    return output, norm, std


@pytest.mark.parametrize("momentum", [0.1, torch.tensor(0.3)], ids=["number", "tensor"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_steps_are_batch_normalization_and_its_gradients(extension, assert_matches, shape, dtype, momentum):
    x, grad = (3 * torch.randn(shape) + 1).to(dtype), torch.randn(shape).to(dtype)
    weight, bias = torch.rand(shape[1]) + 0.5, torch.randn(shape[1])
    running = torch.randn(shape[1]), torch.rand(shape[1])
    exact = [t.double().requires_grad_() for t in (x, weight, bias)]
    expected_running = [t.double() for t in running]
    expected = F.batch_norm(exact[0], *expected_running, *exact[1:], True, float(momentum), 1e-3)
    slopes = torch.autograd.grad(expected, exact, grad.double())

    output, norm, std = run_steps(extension, x, weight, bias, running, 1e-3, momentum)
    assert_matches(output, expected, scale=4)
    assert_matches(running[0], expected_running[0])
    assert_matches(running[1], expected_running[1])

    grad_weight, grad_bias, grad_input = torch.ones(shape[1]), torch.ones(shape[1]), torch.full_like(x, 7)
    extension.sync_bn_backward_param(grad, norm, grad_weight, grad_bias)
    extension.sync_bn_backward_data(grad, weight, grad_weight, grad_bias, norm, std, grad_input)
    assert_matches(grad_weight, slopes[1], scale=8)
    assert_matches(grad_bias, slopes[2], scale=8)
    assert_matches(grad_input, slopes[0], scale=8)


def test_the_running_variance_counts_the_values_of_all_processes(extension, assert_matches):
    x, running = torch.randn(2, 1, 3), (torch.zeros(1), torch.zeros(1))
    run_steps(extension, x, torch.ones(1), torch.zeros(1), running, 1e-5, 1.0, group_size=4)
    assert_matches(running[1], x.double().var(unbiased=False)[None] * 24 / 23)


@pytest.mark.parametrize("none", [None, torch.empty(0)], ids=["None", "empty"])
def test_without_weight_and_running_statistics_the_norm_is_the_output(extension, none):
    output, norm, _ = run_steps(extension, torch.randn(3, 2, 4), none, none, (none, none), 1e-5, 0.1)
    assert torch.equal(output, norm)
