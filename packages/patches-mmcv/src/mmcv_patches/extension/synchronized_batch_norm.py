"""The steps of batch normalization between which ``mmcv.ops.SyncBatchNorm`` talks to the other processes.

Ioffe and Szegedy, 2015, https://arxiv.org/abs/1502.03167; mmcv 2.1.0, ``sync_bn_cuda_kernel.cuh``. Inputs
and outputs are (N, C, S), S being all other dimensions flattened, in float16 or float32; statistics,
``weight``, ``bias``, ``std`` are (C,) and ``norm`` (N, C, S), all float32. Everything is computed in the
dtype of the statistics. An optional tensor may be None, or empty, which means none.
"""

from __future__ import annotations

from torch import Tensor

__all__ = [
    "sync_bn_backward_data",
    "sync_bn_backward_param",
    "sync_bn_forward_mean",
    "sync_bn_forward_output",
    "sync_bn_forward_var",
]


def sync_bn_forward_mean(input: Tensor, mean: Tensor) -> None:
    """Write the mean of every channel into ``mean``."""
    mean.copy_(input.mean((0, 2), dtype=mean.dtype))


def sync_bn_forward_var(input: Tensor, mean: Tensor, var: Tensor) -> None:
    """Write the mean squared distance of every channel from the given ``mean`` into ``var``."""
    var.copy_((input - mean[:, None]).square_().mean((0, 2)))


def sync_bn_forward_output(
    input: Tensor,
    mean: Tensor,
    var: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    norm: Tensor,
    std: Tensor,
    output: Tensor,
    eps: float,
    momentum: float | Tensor,
    group_size: int,
) -> None:
    """Write ``std = sqrt(var + eps)``, ``norm = (input - mean) / std`` and ``output = norm weight + bias``.

    ``running_mean`` and ``running_var`` move towards the batch statistics by ``momentum`` (a number or a 0-d
    tensor); the running variance is the unbiased one over ``N S group_size`` values.
    """
    deviation = (var + eps).sqrt()
    normalized = (input - mean[:, None]).div_(deviation[:, None])
    if _given(norm):
        norm.copy_(normalized)
    if _given(std):
        std.copy_(deviation)
    if _given(weight):
        normalized.mul_(weight[:, None]).add_(bias[:, None])
    output.copy_(normalized)
    if _given(running_mean):
        count = input.shape[0] * input.shape[2] * group_size
        unbiased_var = var * (count / (count - 1)) if count > 1 else var
        running_mean.copy_(momentum * mean + (1 - momentum) * running_mean)
        running_var.copy_(momentum * unbiased_var + (1 - momentum) * running_var)


def sync_bn_backward_param(grad_output: Tensor, norm: Tensor, grad_weight: Tensor, grad_bias: Tensor) -> None:
    """Write the gradients of ``weight`` and ``bias``."""
    grad_weight.copy_((grad_output * norm).sum((0, 2)))
    grad_bias.copy_(grad_output.sum((0, 2), dtype=grad_bias.dtype))


def sync_bn_backward_data(
    grad_output: Tensor,
    weight: Tensor,
    grad_weight: Tensor,
    grad_bias: Tensor,
    norm: Tensor,
    std: Tensor,
    grad_input: Tensor,
) -> None:
    """Write ``grad_input = weight (grad_output - (grad_weight norm + grad_bias) / (N S)) / std``."""
    count = grad_output.shape[0] * grad_output.shape[2]
    through_statistics = (norm * grad_weight[:, None]).add_(grad_bias[:, None]).div_(count)
    factor = weight / std if _given(weight) else 1 / std
    grad_input.copy_((grad_output - through_statistics).mul_(factor[:, None]))


def _given(tensor: Tensor | None) -> bool:
    return tensor is not None and tensor.numel() > 0
