"""The known forms of RMSNorm (Zhang and Sennrich, 2019, https://arxiv.org/abs/1910.07467).

All compute ``x / sqrt(mean(x²) + epsilon)`` over the last dimension in float32. They differ in the weight, and in
whether the result is rounded to the input's dtype before or after it is multiplied by the weight.
"""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch import Tensor

from .rms_norm_operators import OPERATORS, RmsNorm, npu_rms_norm, portable_rms_norm

__all__ = ["IMPLEMENTATIONS", "OPERATORS", "npu_rms_norm", "portable_rms_norm"]


def rounded_then_scaled(rms_norm: RmsNorm) -> Callable[..., Tensor]:
    def forward(self: Any, hidden_states: Tensor) -> Tensor:
        return rms_norm(hidden_states, self.weight, self.variance_epsilon, rounds_first=True)

    return forward


def rounded_then_scaled_by_moved_weight(rms_norm: RmsNorm) -> Callable[..., Tensor]:
    def forward(self: Any, hidden_states: Tensor) -> Tensor:
        weight = self.weight.to(hidden_states.device)
        return rms_norm(hidden_states, weight, self.variance_epsilon, rounds_first=True)

    return forward


def rounded_then_scaled_x(rms_norm: RmsNorm) -> Callable[..., Tensor]:
    def forward(self: Any, x: Tensor) -> Tensor:
        return rms_norm(x, self.weight, self.eps, rounds_first=True)

    return forward


def scaled_then_rounded(rms_norm: RmsNorm) -> Callable[..., Tensor]:
    def forward(self: Any, hidden_states: Tensor) -> Tensor:
        return rms_norm(hidden_states, self.weight, self.variance_epsilon)

    return forward


def scaled_then_rounded_x(rms_norm: RmsNorm) -> Callable[..., Tensor]:
    def forward(self: Any, x: Tensor) -> Tensor:
        return rms_norm(x, self.weight, self.eps)

    return forward


def scaled_if_asked(rms_norm: RmsNorm) -> Callable[..., Tensor]:
    def forward(self: Any, hidden_states: Tensor) -> Tensor:
        return rms_norm(hidden_states, self.weight if self.with_scale else None, self.eps)

    return forward


def centered(rms_norm: RmsNorm) -> Callable[..., Tensor]:
    """The weight is what is added to one."""

    def forward(self: Any, x: Tensor) -> Tensor:
        return rms_norm(x, 1.0 + self.weight.float(), self.eps)

    return forward


def centered_in_own_dtype(rms_norm: RmsNorm) -> Callable[..., Tensor]:
    """As ``centered``, but the sum is rounded to the weight's dtype."""

    def forward(self: Any, x: Tensor) -> Tensor:
        return rms_norm(x, (1.0 + self.weight).float(), self.eps)

    return forward


def scaled_before_normalised(rms_norm: RmsNorm) -> Callable[..., Tensor]:
    def forward(self: Any, x: Tensor) -> Tensor:
        scaled = x.float() * (1.0 + self.weight).float()
        return rms_norm(scaled.type_as(x), None, self.eps)

    return forward


def unscaled(rms_norm: RmsNorm) -> Callable[..., Tensor]:
    def forward(self: Any, hidden_states: Tensor) -> Tensor:
        return rms_norm(hidden_states, None, self.eps)

    return forward


def unscaled_x(rms_norm: RmsNorm) -> Callable[..., Tensor]:
    def forward(self: Any, x: Tensor) -> Tensor:
        return rms_norm(x, None, self.eps)

    return forward


def rounded_to_weight_then_scaled(rms_norm: RmsNorm) -> Callable[..., Tensor]:
    """Rounded only to a half-precision weight's dtype; beside a float32 weight the result is float32."""

    def forward(self: Any, hidden_states: Tensor) -> Tensor:
        normalised = rms_norm(hidden_states.float(), None, self.variance_epsilon)
        if self.weight.dtype in (torch.float16, torch.bfloat16):
            normalised = normalised.to(self.weight.dtype)
        return self.weight * normalised

    return forward


IMPLEMENTATIONS = {
    form.__name__: form
    for form in (
        rounded_then_scaled,
        rounded_then_scaled_by_moved_weight,
        rounded_then_scaled_x,
        scaled_then_rounded,
        scaled_then_rounded_x,
        scaled_if_asked,
        centered,
        centered_in_own_dtype,
        scaled_before_normalised,
        unscaled,
        unscaled_x,
        rounded_to_weight_then_scaled,
    )
}
