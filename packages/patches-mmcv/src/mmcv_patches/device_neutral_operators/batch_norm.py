"""The forward pass of mmcv's ``SyncBatchNorm``, which upstream refuses to tensors that are not on the CPU or CUDA."""

from __future__ import annotations

from typing import Any

import mmcv._ext as extension
import torch
from torch import Tensor, distributed

__all__ = ["sync_batch_norm_forward"]


def sync_batch_norm_forward(
    self: Any,
    input: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    weight: Tensor,
    bias: Tensor,
    momentum: float,
    eps: float,
    group: Any,
    group_size: int,
    stats_mode: str,
) -> Tensor:
    """Normalise ``input`` (N, C, ...) by the statistics of all processes of ``group``; update the running ones.

    ``stats_mode`` "default" gives each process the same weight, "N" each sample. A process without samples takes part
    in the exchange; without any sample the running statistics stay.

    ``self`` is the context of the autograd function, by upstream's name for it.

    Raises:
        AssertionError: ``input`` is neither float16 nor float32.
        NotImplementedError: ``stats_mode`` is another word.
    """
    assert input.dtype in (torch.float16, torch.float32), (
        f"only support Half or Float Tensor, but {input.dtype} on {input.device}"
    )
    if stats_mode not in ("default", "N"):
        raise NotImplementedError(f"stats_mode is 'default' or 'N', got {stats_mode!r}")
    self.momentum, self.eps, self.group, self.group_size, self.stats_mode = (
        momentum,
        eps,
        group,
        group_size,
        stats_mode,
    )
    samples, values = len(input), input.flatten(start_dim=2)
    output, norm = torch.zeros_like(input), torch.zeros_like(values, dtype=torch.float32)
    mean, var, std = torch.zeros((3, values.shape[1]), device=input.device).unbind()
    if samples:
        extension.sync_bn_forward_mean(values, mean)
    # The count rides along with the mean: one exchange instead of two.
    summed = torch.cat([mean, mean.new_full((1,), float(samples > 0))])
    summed = _sum_over_processes(self, summed, samples)
    total = summed[-1]
    mean = _averaged(self, summed[:-1], total)
    if samples:
        extension.sync_bn_forward_var(values, mean, var)
    var = _averaged(self, _sum_over_processes(self, var, samples), total)
    extension.sync_bn_forward_output(
        values,
        mean,
        var,
        weight,
        bias,
        running_mean,
        running_var,
        norm,
        std,
        output.view_as(values),
        eps=eps,
        momentum=total.clamp(max=1) * momentum,
        group_size=group_size,
    )
    self.save_for_backward(norm, std, weight)
    return output


def _sum_over_processes(ctx: Any, values: Tensor, samples: int) -> Tensor:
    values = values * samples if ctx.stats_mode == "N" else values
    if ctx.group_size > 1:
        distributed.all_reduce(values, group=ctx.group)
    return values


def _averaged(ctx: Any, summed: Tensor, total: Tensor) -> Tensor:
    return summed / (ctx.group_size if ctx.stats_mode == "default" else total.clamp(min=1))
