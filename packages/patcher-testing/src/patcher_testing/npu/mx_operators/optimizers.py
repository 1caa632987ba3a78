"""AdamW (Loshchilov and Hutter, 2017, https://arxiv.org/abs/1711.05101), all tensors updated in place."""

from __future__ import annotations

import torch


def adamw_param_update(
    parameter: torch.Tensor,
    gradient: torch.Tensor,
    first_moment: torch.Tensor,
    second_moment: torch.Tensor,
    second_moment_maximum: torch.Tensor,
    learning_rate: float,
    beta1: float,
    beta2: float,
    weight_decay: float,
    epsilon: float,
    bias_correction1: float,
    bias_correction2: float,
    amsgrad: bool,
) -> None:
    """One step; bias corrections are 1 - beta ** step; `second_moment_maximum` is empty without amsgrad."""
    parameter.mul_(1 - learning_rate * weight_decay)
    first_moment.lerp_(gradient.to(first_moment.dtype), 1 - beta1)
    second_moment.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
    variance = second_moment
    if amsgrad:
        variance = torch.maximum(second_moment_maximum, second_moment, out=second_moment_maximum)
    denominator = (variance / bias_correction2).sqrt() + epsilon
    parameter.addcdiv_(first_moment, denominator, value=-learning_rate / bias_correction1)


REFERENCES = {"adamw_param_update": adamw_param_update}
