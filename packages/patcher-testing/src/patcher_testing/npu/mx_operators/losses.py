"""Sigmoid focal loss (Lin et al., 2017, https://arxiv.org/abs/1708.02002). The functions write their last
tensor in place.
"""

from __future__ import annotations

import torch
from torch.nn import functional

from ..differentiation import gradients, upcast


def _focal_loss(
    logits: torch.Tensor, target: torch.Tensor, class_weight: torch.Tensor, gamma: float, alpha: float
) -> torch.Tensor:
    """Loss of each (sample, class); a target equal to the number of classes is background."""
    classes = logits.size(1)
    is_target = target.unsqueeze(1) == torch.arange(classes)
    log_probability = functional.logsigmoid(logits)
    log_complement = functional.logsigmoid(-logits)
    probability = logits.sigmoid()
    positive = -alpha * (1 - probability) ** gamma * log_probability
    negative = -(1 - alpha) * probability**gamma * log_complement
    loss = torch.where(is_target, positive, negative)
    if class_weight.numel():
        padded = functional.pad(class_weight, (0, 1), value=1)
        loss = loss * padded[target].unsqueeze(1)
    return loss


def sigmoid_focal_loss(
    logits: torch.Tensor,
    target: torch.Tensor,
    class_weight: torch.Tensor,
    output: torch.Tensor,
    gamma: float,
    alpha: float,
) -> None:
    output.copy_(_focal_loss(upcast(logits), target, class_weight, gamma, alpha))


def sigmoid_focal_loss_backward(
    logits: torch.Tensor,
    target: torch.Tensor,
    class_weight: torch.Tensor,
    grad_logits: torch.Tensor,
    gamma: float,
    alpha: float,
) -> None:
    (gradient,) = gradients(
        lambda x: _focal_loss(x, target, class_weight, gamma, alpha), (logits,), torch.ones_like(logits)
    )
    grad_logits.copy_(gradient)


REFERENCES = {
    "sigmoid_focal_loss": sigmoid_focal_loss,
    "sigmoid_focal_loss_cann": sigmoid_focal_loss,
    "sigmoid_focal_loss_backward": sigmoid_focal_loss_backward,
    "sigmoid_focal_loss_backward_cann": sigmoid_focal_loss_backward,
}
