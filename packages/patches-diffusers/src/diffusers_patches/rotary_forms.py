"""The known forms of rotary position embedding (Su et al., 2021, https://arxiv.org/abs/2104.09864) in diffusers.

They differ in how the factors are given, and in which dimension of the input is the sequence.
"""

from __future__ import annotations

from typing import Any, Callable

from torch import Tensor

Factors = Any  #: a pair (cos, sin), each (S, D), or complex numbers (..., D / 2)


def _rotated_by_pair(operators: Any, x: Tensor, cos: Tensor, sin: Tensor, unbind_dim: int) -> Tensor:
    """``unbind_dim``: -1 where pairs of channels are neighbours, -2 where they lie half of them apart."""
    if unbind_dim not in (-1, -2):
        raise ValueError(f"use_real_unbind_dim must be -1 or -2, got {unbind_dim!r}")
    return operators.rotated(x, cos.to(x.device), sin.to(x.device), interleaved=unbind_dim == -1)


def _rotated_by_complex(operators: Any, x: Tensor, factors: Tensor) -> Tensor:
    cos, sin = (part.repeat_interleave(2, dim=-1) for part in (factors.real, factors.imag))
    return operators.rotated(x, cos, sin, interleaved=True)


def with_sequence_dim(operators: Any) -> Callable[..., Tensor]:
    """From 0.35 on."""

    def apply_rotary_emb(
        x: Tensor,
        freqs_cis: Factors,
        use_real: bool = True,
        use_real_unbind_dim: int = -1,
        sequence_dim: int = 2,
    ) -> Tensor:
        if not use_real:
            return _rotated_by_complex(operators, x, freqs_cis.unsqueeze(2))
        cos, sin = freqs_cis
        if sequence_dim == 2:
            cos, sin = cos[None, None, :, :], sin[None, None, :, :]
        elif sequence_dim == 1:
            cos, sin = cos[None, :, None, :], sin[None, :, None, :]
        else:
            raise ValueError(f"sequence_dim must be 1 or 2, got {sequence_dim!r}")
        return _rotated_by_pair(operators, x, cos, sin, use_real_unbind_dim)

    return apply_rotary_emb


def with_unbind_dim(operators: Any) -> Callable[..., Tensor]:
    """0.30 to 0.34."""

    def apply_rotary_emb(
        x: Tensor, freqs_cis: Factors, use_real: bool = True, use_real_unbind_dim: int = -1
    ) -> Tensor:
        if not use_real:
            return _rotated_by_complex(operators, x, freqs_cis.unsqueeze(2))
        cos, sin = freqs_cis
        return _rotated_by_pair(operators, x, cos[None, None], sin[None, None], use_real_unbind_dim)

    return apply_rotary_emb


def qwen(operators: Any) -> Callable[..., Tensor]:
    """``apply_rotary_emb_qwen``: complex factors belong to the second dimension of the input."""

    def apply_rotary_emb_qwen(
        x: Tensor, freqs_cis: Factors, use_real: bool = True, use_real_unbind_dim: int = -1
    ) -> Tensor:
        if not use_real:
            return _rotated_by_complex(operators, x, freqs_cis.unsqueeze(1))
        cos, sin = freqs_cis
        return _rotated_by_pair(operators, x, cos[None, None], sin[None, None], use_real_unbind_dim)

    return apply_rotary_emb_qwen


def neighbours(operators: Any) -> Callable[..., Tensor]:
    """0.28 and 0.29."""

    def apply_rotary_emb(x: Tensor, freqs_cis: Factors) -> Tensor:
        cos, sin = freqs_cis
        return _rotated_by_pair(operators, x, cos[None, None], sin[None, None], -1)

    return apply_rotary_emb


def neighbours_of_sequence(operators: Any) -> Callable[..., Tensor]:
    """LTX: input and factors are (B, S, C)."""

    def apply_rotary_emb(x: Tensor, freqs: Factors) -> Tensor:
        cos, sin = freqs
        return operators.rotated(x, cos, sin, interleaved=True)

    return apply_rotary_emb
