"""The known forms of RMSNorm (Zhang and Sennrich, 2019, https://arxiv.org/abs/1910.07467) in diffusers.

They differ in the weight, and in the dtype of the result.
"""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch import Tensor


def in_dtype_of_weight(operators: Any) -> Callable[..., Tensor]:
    """``diffusers.models.normalization.RMSNorm``; from 0.32 on it may have a bias."""

    def forward(self: Any, hidden_states: Tensor) -> Tensor:
        result = operators.rms_norm_in_dtype_of_weight(hidden_states, self.weight, self.eps)
        bias = getattr(self, "bias", None)
        return result if bias is None or self.weight is None else result + bias

    return forward


def in_dtype_of_input(operators: Any) -> Callable[..., Tensor]:
    """``MochiRMSNorm``."""

    def forward(self: Any, hidden_states: Tensor) -> Tensor:
        return operators.rms_norm_in_dtype_of_input(hidden_states, self.weight, self.eps)

    return forward


def in_float32(operators: Any) -> Callable[..., Tensor]:
    """``Cosmos3NemotronRMSNorm``."""

    def forward(self: Any, hidden_states: Tensor) -> Tensor:
        return _in_float32(operators, hidden_states, self.weight.float(), self.eps)

    return forward


def in_float32_by_gamma(operators: Any) -> Callable[..., Tensor]:
    """``StableAudio3RMSNorm`` where it is told to compute in float32."""

    def forward(self: Any, hidden_states: Tensor) -> Tensor:
        return _in_float32(operators, hidden_states, self.gamma.float(), self.eps)

    return forward


def in_float32_centered(operators: Any) -> Callable[..., Tensor]:
    """``QwenImage21ZeroCenterRMSNorm``: the weight is what is added to one."""

    def forward(self: Any, hidden_states: Tensor) -> Tensor:
        return _in_float32(operators, hidden_states, self.weight.float() + 1, self.eps)

    return forward


def _in_float32(operators: Any, x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """All of it in float32, also where the input is wider; in the dtype of the input."""
    narrow = x.float() if x.dtype == torch.float64 else x
    return operators.rms_norm_in_dtype_of_input(narrow, weight, epsilon).to(x.dtype)
