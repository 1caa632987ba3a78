"""The known forms of RMSNorm (Zhang and Sennrich, 2019, https://arxiv.org/abs/1910.07467).

All compute ``x / sqrt(mean(x²) + epsilon)`` over the last dimension in float32. They differ in the weight, and in
whether the result is rounded to the input's dtype before or after it is multiplied by the weight.
"""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch import Tensor
from torch.nn import functional

#: ``rms_norm(x, weight, epsilon, rounds_first=False)``; a weight of None means no weight.
RmsNorm = Callable[..., Tensor]


def portable_rms_norm(x: Tensor, weight: Tensor | None, epsilon: float, rounds_first: bool = False) -> Tensor:
    """RMSNorm of ``x`` (..., N), computed in float32, in plain PyTorch.

    Args:
        weight: (N,) or a scalar, or None.
        rounds_first: round to the dtype of ``x``, then multiply by the weight (the dtype of the result is the one that
            this gives); otherwise multiply in float32, then round.
    """
    normalised = functional.rms_norm(x.float(), x.shape[-1:], None, epsilon)
    if weight is None:
        return normalised.to(x.dtype)
    if rounds_first:
        return weight * normalised.to(x.dtype)
    return (weight.float() * normalised).to(x.dtype)


_NPU_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def npu_rms_norm(x: Tensor, weight: Tensor | None, epsilon: float, rounds_first: bool = False) -> Tensor:
    """The same with ``torch_npu.npu_rms_norm``, which multiplies in float32 and keeps the dtype of ``x``.

    What is not on an NPU, or in a dtype that the operator does not take, is computed by :func:`portable_rms_norm`.
    """
    if x.device.type != "npu" or x.dtype not in _NPU_DTYPES:
        return portable_rms_norm(x, weight, epsilon, rounds_first)
    import torch_npu

    if weight is None or (rounds_first and weight.dtype != x.dtype):
        # Upstream's product takes the wider dtype, where the operator would keep that of x.
        unscaled = torch_npu.npu_rms_norm(x, x.new_ones(x.shape[-1]), epsilon=epsilon)[0]
        return unscaled if weight is None else weight * unscaled
    return torch_npu.npu_rms_norm(x, weight.expand(x.shape[-1]), epsilon=epsilon)[0]


OPERATORS = {"portable": portable_rms_norm, "npu": npu_rms_norm}


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
