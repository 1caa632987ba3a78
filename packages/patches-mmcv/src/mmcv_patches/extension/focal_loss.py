"""Focal loss over sigmoid and softmax scores, forward and backward.

Lin et al., "Focal Loss for Dense Object Detection", 2017, https://arxiv.org/abs/1708.02002. With ``p`` the
probability that the model gives to a class, the loss of a positive is ``-alpha (1 - p)^gamma log(p)`` and
that of a negative ``-(1 - alpha) p^gamma log(1 - p)``. Logarithms are taken of ``max(p, tiny)``, tiny being
the smallest normal float32, as in mmcv 2.1.0 (``sigmoid_focal_loss_cuda_kernel.cuh`` and
``softmax_focal_loss_cuda_kernel.cuh``), so that a saturated probability costs a finite 87.3.

Over sigmoid scores ``1 - p`` and both logarithms are taken from the logit ``x``: ``1 - p = sigmoid(-x)``,
``log(1 - p) = -softplus(x)``. mmcv's kernel subtracts, which loses the digits of ``1 - p`` as ``x`` grows: 4e-5
of a positive's loss at ``x = 6``, and from ``x = 17`` on, where ``1 - p`` rounds to 0 in float32, a negative costs
87.3 there and ``x`` here. Slopes agree.

``weight`` has shape (C,) or is empty, which means none: the loss of a row is multiplied by the weight of
its label. Half precision is computed in float32.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from .chunking import row_ranges
from .precision import accumulation_dtype

__all__ = [
    "sigmoid_focal_loss_backward",
    "sigmoid_focal_loss_forward",
    "softmax_focal_loss_backward",
    "softmax_focal_loss_forward",
]

_TINY = torch.finfo(torch.float32).tiny


def sigmoid_focal_loss_forward(
    input: Tensor, target: Tensor, weight: Tensor, output: Tensor, gamma: float, alpha: float
) -> None:
    """Write the loss of every row and class into ``output``.

    ``input`` (N, C) logits, ``target`` (N,) int64 labels in 0..C, C meaning background (negative for all
    classes), ``output`` (N, C). A background row has weight 1: it has no entry in ``weight``, and mmcv's
    CUDA kernel reads past its end there.

    Raises:
        RuntimeError: a label is larger than C.
    """
    _check_labels(target, input.shape[1])
    for start, stop in row_ranges(input.shape[0], input.shape[1]):
        rows = slice(start, stop)
        p, q, log_p, log_q = _probabilities(input[rows])
        loss_of_positive = -alpha * q**gamma * log_p
        loss_of_negative = -(1 - alpha) * p**gamma * log_q
        positive = _positives(target[rows], input.shape[1])
        loss = torch.where(positive, loss_of_positive, loss_of_negative)
        output[rows] = loss * _label_weights(weight, target[rows], loss.dtype)[:, None]


def sigmoid_focal_loss_backward(
    input: Tensor, target: Tensor, weight: Tensor, grad_input: Tensor, gamma: float, alpha: float
) -> None:
    """Write the derivative of each loss by its own logit into ``grad_input`` (N, C).

    By ``dp/dx = p (1 - p)``: ``-alpha (1 - p)^gamma (1 - p - gamma p log p)`` for a positive and
    ``-(1 - alpha) p^gamma (gamma (1 - p) log(1 - p) - p)`` for a negative.
    """
    for start, stop in row_ranges(input.shape[0], input.shape[1]):
        rows = slice(start, stop)
        p, q, log_p, log_q = _probabilities(input[rows])
        slope_of_positive = -alpha * q**gamma * (q - gamma * p * log_p)
        slope_of_negative = -(1 - alpha) * p**gamma * (gamma * q * log_q - p)
        positive = _positives(target[rows], input.shape[1])
        slope = torch.where(positive, slope_of_positive, slope_of_negative)
        grad_input[rows] = slope * _label_weights(weight, target[rows], slope.dtype)[:, None]


def softmax_focal_loss_forward(
    input: Tensor, target: Tensor, weight: Tensor, output: Tensor, gamma: float, alpha: float
) -> None:
    """Write the loss of every row into ``output`` (N,).

    ``input`` (N, C) holds the softmax itself, ``target`` (N,) int64 labels. A row whose label is negative
    has loss 0; so has one whose label is C, for which mmcv's CUDA kernel reads past the end of the row.

    Raises:
        RuntimeError: a label is larger than C.
    """
    _check_labels(target, input.shape[1])
    p, counted = _label_probabilities(input, target)
    loss = -alpha * (1 - p) ** gamma * p.clamp(min=_TINY).log()
    loss = loss * _label_weights(weight, target, loss.dtype)
    output.copy_(loss.masked_fill(~counted, 0))


def softmax_focal_loss_backward(
    input: Tensor,
    target: Tensor,
    weight: Tensor,
    buff: Tensor,
    grad_input: Tensor,
    gamma: float,
    alpha: float,
) -> None:
    """Write the derivative by the logits into ``grad_input`` (N, C), and ``p dL/dp`` into ``buff`` (N,).

    ``dL/dx_c = p dL/dp (1[c = label] - softmax_c)`` with
    ``p dL/dp = alpha (gamma (1 - p)^(gamma - 1) p log p - (1 - p)^gamma)``, whose first term tends to 0 for
    ``p`` to 1.
    """
    p, counted = _label_probabilities(input, target)
    q = 1 - p
    focusing = (gamma * q ** (gamma - 1) * p * p.clamp(min=_TINY).log()).masked_fill(q <= 0, 0)
    factor = alpha * (focusing - q**gamma) * _label_weights(weight, target, p.dtype)
    factor = factor.masked_fill(~counted, 0)
    buff.copy_(factor)
    classes = torch.arange(input.shape[1], device=input.device)
    for start, stop in row_ranges(input.shape[0], input.shape[1]):
        rows = slice(start, stop)
        difference = (target[rows, None] == classes).to(p.dtype) - input[rows].to(p.dtype)
        grad_input[rows] = factor[rows, None] * difference


def _check_labels(target: Tensor, num_classes: int) -> None:
    if target.numel() and int(target.max()) > num_classes:
        raise RuntimeError(
            f"focal loss: found the label {int(target.max())}, expected labels in 0..{num_classes} "
            f"({num_classes} classes, the last value meaning background); check num_classes of the head"
        )


def _probabilities(logits: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """``p = sigmoid(logits)``, ``1 - p`` without a subtraction, and the logarithms of both, at least log(tiny)."""
    x = logits.to(accumulation_dtype(logits))
    smallest = math.log(_TINY)
    log_p, log_q = logsigmoid(x).clamp(min=smallest), logsigmoid(-x).clamp(min=smallest)
    return x.sigmoid(), (-x).sigmoid(), log_p, log_q


def _positives(target: Tensor, num_classes: int) -> Tensor:
    """Which (row, class) is that row's label, bool (N, C)."""
    return target[:, None] == torch.arange(num_classes, device=target.device)


def _label_probabilities(softmax: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """The probability of each row's label, and whether the label is a class at all."""
    counted = (target >= 0) & (target < softmax.shape[1])
    p = softmax.gather(1, target.clamp(0, softmax.shape[1] - 1)[:, None])[:, 0]
    return p.to(accumulation_dtype(softmax)), counted


def _label_weights(weight: Tensor, target: Tensor, dtype: torch.dtype) -> Tensor:
    if not weight.numel():
        return torch.ones_like(target, dtype=dtype)
    is_class = (target >= 0) & (target < weight.numel())
    return weight.to(dtype)[target.clamp(0, weight.numel() - 1)].masked_fill(~is_class, 1)
