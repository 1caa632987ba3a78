"""Rotary position embedding (Su et al., 2021, https://arxiv.org/abs/2104.09864)."""

from __future__ import annotations

import torch

from ..differentiation import gradients, upcast


def _rotate(x: torch.Tensor, mode: str) -> torch.Tensor:
    """Each pair (a, b) becomes (-b, a): pairs half a head apart (`half`) or neighbours (`interleave`)."""
    if mode == "half":
        first, second = x.chunk(2, dim=-1)
        return torch.cat((-second, first), dim=-1)
    if mode == "interleave":
        return torch.stack((-x[..., 1::2], x[..., 0::2]), dim=-1).flatten(-2)
    raise RuntimeError(f"rotary_mode must be 'half' or 'interleave', got {mode!r}")


def _check(input: torch.Tensor, *factors: torch.Tensor) -> None:
    for factor in factors:
        if input.dim() != 4 or factor.dim() != 4 or factor.size(-1) != input.size(-1):
            raise RuntimeError(
                "npu_rotary_mul takes 4-D tensors with one size of the last dimension, got "
                f"input {tuple(input.shape)} and a factor {tuple(factor.shape)}"
            )


def rotary_mul(
    input: torch.Tensor,
    r1: torch.Tensor,
    r2: torch.Tensor,
    rotary_mode: str = "half",
    rotate: torch.Tensor | None = None,
) -> torch.Tensor:
    """x * r1 + rotated(x) * r2, r1 and r2 being cos and sin, broadcast over x, all 4-D."""
    _check(input, r1, r2)
    x = upcast(input)
    rotated = _rotate(x, rotary_mode) if rotate is None else x @ upcast(rotate)
    return (x * r1 + rotated * r2).to(input.dtype)


def rotary_mul_backward(
    grad: torch.Tensor, input: torch.Tensor, r1: torch.Tensor, r2: torch.Tensor, rotary_mode: str = "half"
) -> list[torch.Tensor | None]:
    return gradients(lambda x, cos, sin: rotary_mul(x, cos, sin, rotary_mode), (input, r1, r2), grad)


def apply_rotary_pos_emb(
    query: torch.Tensor,
    key: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    layout: str = "BSND",
    rotary_mode: str = "half",
) -> tuple[torch.Tensor, torch.Tensor]:
    """Both heads rotated. `layout` names the order of dimensions, which broadcasting already follows."""
    if layout not in ("BSND", "BSH"):
        raise RuntimeError(f"npu_apply_rotary_pos_emb: layout must be 'BSND' or 'BSH', got {layout!r}")
    return rotary_mul(query, cos, sin, rotary_mode), rotary_mul(key, cos, sin, rotary_mode)


REFERENCES = {
    "npu::npu_rotary_mul": rotary_mul,
    "npu::npu_rotary_mul_backward": rotary_mul_backward,
    "npu::npu_apply_rotary_pos_emb": apply_rotary_pos_emb,
}
