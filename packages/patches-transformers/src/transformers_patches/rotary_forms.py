"""The known forms of rotary position embedding (Su et al., 2021, https://arxiv.org/abs/2104.09864).

All turn pairs (a, b) of channels into (a cos - b sin, b cos + a sin). They differ in which channels make a pair and
how many do (:class:`Rotation`), and in their arguments (the functions below it).
"""

from __future__ import annotations

import functools
from typing import Any, Callable, NamedTuple

import torch
from torch import Tensor

from .rotary_operators import OPERATORS, RotaryMul, portable_rotary_mul

__all__ = ["IMPLEMENTATIONS", "OPERATORS", "Rotation", "portable_rotary_mul"]


class Rotation(NamedTuple):
    """Which channels are rotated, by which factors, in which dtype.

    Attributes:
        interleaved: the pairs of channels are neighbours; otherwise half of the channels apart.
        separated: the pairs are neighbours in the input and half of the channels apart in the result.
        part: ``all``, or the ``leading`` or ``trailing`` channels, as many as there are factors.
        factors: how cos and sin are given: for ``all`` channels, for all of which only the ``first_half`` counts,
            or for ``pairs``.
        flipped: the angle is negative.
        in_float32: the products are taken in float32. rounded: the result has the dtype of the input, also where cos
            and sin are wider.
    """

    interleaved: bool = False
    separated: bool = False
    part: str = "all"
    factors: str = "all"
    flipped: bool = False
    in_float32: bool = False
    rounded: bool = False

    def per_channel(self, factor: Tensor) -> Tensor:
        """cos or sin with one value per rotated channel."""
        if self.factors == "all":
            return factor
        if self.factors == "first_half":
            factor = factor[..., : factor.shape[-1] // 2]
        return (
            factor.repeat_interleave(2, dim=-1) if self.interleaved else torch.cat((factor, factor), dim=-1)
        )

    def __call__(self, rotary_mul: RotaryMul, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """``x`` rotated; cos and sin are per channel and broadcast over ``x``."""
        channels = cos.shape[-1]
        rest = x[..., :0]
        rotated = x
        if self.part == "leading":
            rotated, rest = x[..., :channels], x[..., channels:]
        elif self.part == "trailing":
            rest, rotated = x[..., :-channels], x[..., -channels:]
        if self.in_float32:
            rotated = rotated.float()
        if self.separated:
            rotated = torch.cat((rotated[..., ::2], rotated[..., 1::2]), dim=-1)
        rotated = rotary_mul(rotated, cos, -sin if self.flipped else sin, self.interleaved)
        if self.rounded:
            rotated = rotated.to(x.dtype)
        if self.part == "all":
            return rotated
        return torch.cat((rotated, rest) if self.part == "leading" else (rest, rotated), dim=-1)


class _Rotary:
    """A rotation with an operator: what the functions below call."""

    def __init__(self, rotation: Rotation, rotary_mul: RotaryMul) -> None:
        self._rotation = rotation
        self._rotary_mul = rotary_mul

    def __call__(self, cos: Tensor, sin: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
        cos, sin = self._rotation.per_channel(cos), self._rotation.per_channel(sin)
        return tuple(self._rotation(self._rotary_mul, x, cos, sin) for x in tensors)


# ---------------------------------------------------------------------- arguments, as upstream has them
def _query_key(rotate: _Rotary) -> Callable[..., Any]:
    def apply_rotary_pos_emb(
        q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1
    ) -> tuple[Tensor, ...]:
        return rotate(cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim), q, k)

    return apply_rotary_pos_emb


def _query_key_4(rotate: _Rotary) -> Callable[..., Any]:
    """As in transformers 4, with positions that are not used."""

    def apply_rotary_pos_emb(
        q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, position_ids: Any = None, unsqueeze_dim: int = 1
    ) -> tuple[Tensor, ...]:
        return rotate(cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim), q, k)

    return apply_rotary_pos_emb


def _query_optional_key(rotate: _Rotary) -> Callable[..., Any]:
    def apply_rotary_pos_emb(
        q: Tensor, k: Any = None, cos: Any = None, sin: Any = None, unsqueeze_dim: int = 1
    ) -> Tensor | tuple[Tensor, ...]:
        tensors = (q,) if k is None else (q, k)
        rotated = rotate(cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim), *tensors)
        return rotated[0] if k is None else rotated

    return apply_rotary_pos_emb


def _query_key_or_none(rotate: _Rotary) -> Callable[..., Any]:
    def apply_rotary_pos_emb_interleave(
        q: Tensor, k: Tensor | None, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1
    ) -> tuple[Tensor | None, ...]:
        tensors = (q,) if k is None else (q, k)
        rotated = rotate(cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim), *tensors)
        return (rotated[0], None) if k is None else rotated

    return apply_rotary_pos_emb_interleave


def _query_key_gathered(rotate: _Rotary) -> Callable[..., Any]:
    def apply_rotary_pos_emb(
        q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, position_ids: Tensor, unsqueeze_dim: int = 1
    ) -> tuple[Tensor, ...]:
        cos, sin = cos[position_ids].unsqueeze(unsqueeze_dim), sin[position_ids].unsqueeze(unsqueeze_dim)
        return rotate(cos, sin, q, k)

    return apply_rotary_pos_emb


def _query_key_value_gathered(rotate: _Rotary) -> Callable[..., Any]:
    def apply_rotary_pos_emb(
        q: Tensor,
        k: Tensor,
        v: Tensor,
        cos: Tensor,
        sin: Tensor,
        position_ids: Tensor,
        unsqueeze_dim: int = 1,
    ) -> tuple[Tensor, ...]:
        cos, sin = cos[position_ids].unsqueeze(unsqueeze_dim), sin[position_ids].unsqueeze(unsqueeze_dim)
        return rotate(cos, sin, q, k, v)

    return apply_rotary_pos_emb


def _query_key_multimodal(rotate: _Rotary) -> Callable[..., Any]:
    """cos and sin (3, ...), for time, height and width: the channels of each section have the angles of one of them.

    ``mrope_section`` has the size of each section in one half of the channels; the other half is cut likewise.
    """

    def apply_multimodal_rotary_pos_emb(
        q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, mrope_section: list[int], unsqueeze_dim: int = 1
    ) -> tuple[Tensor, ...]:
        cos, sin = (_by_section(factor, mrope_section * 2).unsqueeze(unsqueeze_dim) for factor in (cos, sin))
        return rotate(cos, sin, q, k)

    return apply_multimodal_rotary_pos_emb


def _by_section(factor: Tensor, sections: list[int]) -> Tensor:
    parts = factor.split(sections, dim=-1)
    return torch.cat([part[index % 3] for index, part in enumerate(parts)], dim=-1)


def _one(rotate: _Rotary) -> Callable[..., Any]:
    def apply_rotary_pos_emb(x: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1) -> Tensor:
        return rotate(cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim), x)[0]

    return apply_rotary_pos_emb


def _one_4(rotate: _Rotary) -> Callable[..., Any]:
    def apply_rotary_pos_emb(
        x: Tensor, cos: Tensor, sin: Tensor, position_ids: Any = None, unsqueeze_dim: int = 1
    ) -> Tensor:
        return rotate(cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim), x)[0]

    return apply_rotary_pos_emb


def _one_truncated(rotate: _Rotary) -> Callable[..., Any]:
    def apply_rotary_pos_emb(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        length = x.shape[-2]
        return rotate(cos[:, :, :length, :], sin[:, :, :length, :], x)[0]

    return apply_rotary_pos_emb


def _one_sin_first(rotate: _Rotary) -> Callable[..., Any]:
    def apply_rotary_pos_emb(tensor: Tensor, sin: Tensor, cos: Tensor) -> Tensor:
        return rotate(cos[:, :, None, :], sin[:, :, None, :], tensor)[0]

    return apply_rotary_pos_emb


def _one_from_frequencies(rotate: _Rotary) -> Callable[..., Any]:
    def apply_rotary_pos_emb_vision(tensor: Tensor, freqs: Tensor) -> Tensor:
        return rotate(freqs.cos()[None, :, None], freqs.sin()[None, :, None], tensor)[0]

    return apply_rotary_pos_emb_vision


def _vision(rotate: _Rotary) -> Callable[..., Any]:
    """Query and key (positions, heads, D); cos and sin (positions, D)."""

    def apply_rotary_pos_emb_vision(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, ...]:
        return rotate(cos.unsqueeze(-2), sin.unsqueeze(-2), q, k)

    return apply_rotary_pos_emb_vision


def _plane(rotate: _Rotary) -> Callable[..., Any]:
    def apply_rotary_pos_emb_2d(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, ...]:
        return rotate(cos, sin, q, k)

    return apply_rotary_pos_emb_2d


def _patches(rotate: _Rotary) -> Callable[..., Any]:
    """The leading tokens (class, registers) have no position."""

    def apply_rotary_pos_emb(
        q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, **kwargs: Any
    ) -> tuple[Tensor, ...]:
        without_position = q.shape[-2] - sin.shape[-2]
        (q_prefix, q_rest), (k_prefix, k_rest) = (
            t.split((without_position, sin.shape[-2]), dim=-2) for t in (q, k)
        )
        q_rest, k_rest = rotate(cos, sin, q_rest, k_rest)
        return torch.cat((q_prefix, q_rest), dim=-2), torch.cat((k_prefix, k_rest), dim=-2)

    return apply_rotary_pos_emb


# ---------------------------------------------------------------------- forms
_IN_FLOAT32 = {"in_float32": True, "rounded": True}
_HALF = Rotation()
_PARTIAL = Rotation(part="leading")
_INTERLEAVED = Rotation(interleaved=True)
_REPEATED = Rotation(interleaved=True, factors="first_half")
_FORMS = {
    "half": (_query_key, _HALF),
    "half_4": (_query_key_4, _HALF),
    "half_rounded": (_query_key, Rotation(rounded=True)),
    "half_rounded_4": (_query_key_4, Rotation(rounded=True)),
    "half_in_float32": (_query_key, Rotation(**_IN_FLOAT32)),
    "half_flipped": (_query_key, Rotation(flipped=True)),
    "half_of_pairs": (_query_key, Rotation(factors="pairs")),
    "half_of_pairs_4": (_query_key_4, Rotation(factors="pairs")),
    "partial_half": (_query_key, _PARTIAL),
    "partial_half_4": (_query_key_4, _PARTIAL),
    "partial_half_optional_key": (_query_optional_key, _PARTIAL),
    "interleaved": (_query_key, _INTERLEAVED),
    "interleaved_4": (_query_key_4, _INTERLEAVED),
    "interleaved_in_float32": (_query_key, _INTERLEAVED._replace(**_IN_FLOAT32)),
    "interleaved_in_float32_4": (_query_key_4, _INTERLEAVED._replace(**_IN_FLOAT32)),
    "interleaved_repeated": (_query_key, _REPEATED),
    "interleaved_repeated_4": (_query_key_4, _REPEATED),
    "interleaved_repeated_in_float32": (_query_key, _REPEATED._replace(**_IN_FLOAT32)),
    "interleaved_repeated_in_float32_4": (_query_key_4, _REPEATED._replace(**_IN_FLOAT32)),
    "interleaved_of_pairs": (_query_key, _INTERLEAVED._replace(factors="pairs")),
    "partial_interleaved": (_query_key, _INTERLEAVED._replace(part="leading")),
    "partial_interleaved_repeated": (_query_key, _REPEATED._replace(part="leading")),
    "partial_interleaved_repeated_4": (_query_key_4, _REPEATED._replace(part="leading")),
    "separated_4": (_query_key_4, Rotation(separated=True)),
    "separated_first_half_4": (_query_key_4, Rotation(separated=True, factors="first_half")),
    "separated_first_half_optional_key": (
        _query_key_or_none,
        Rotation(separated=True, factors="first_half"),
    ),
    "half_gathered": (_query_key_gathered, _HALF),
    "half_gathered_with_value": (_query_key_value_gathered, _HALF),
    "multimodal_half": (_query_key_multimodal, _HALF),
    "multimodal_partial_half": (_query_key_multimodal, _PARTIAL),
    "multimodal_partial_interleaved_repeated": (_query_key_multimodal, _REPEATED._replace(part="leading")),
    "one_half": (_one, _HALF),
    "one_half_4": (_one_4, _HALF),
    "one_half_truncated": (_one_truncated, _HALF),
    "one_trailing_interleaved": (
        _one,
        Rotation(interleaved=True, part="trailing", factors="pairs", **_IN_FLOAT32),
    ),
    "one_interleaved_sin_first": (_one_sin_first, _INTERLEAVED._replace(factors="pairs")),
    "one_half_from_frequencies": (_one_from_frequencies, Rotation(factors="pairs", **_IN_FLOAT32)),
    "vision_half": (_vision, Rotation(**_IN_FLOAT32)),
    "vision_interleaved": (_vision, _INTERLEAVED._replace(**_IN_FLOAT32)),
    "vision_partial_half": (_vision, _PARTIAL),
    "plane_interleaved": (_plane, _INTERLEAVED._replace(**_IN_FLOAT32)),
    "patches_half": (_patches, _HALF),
}


def _built(arguments: Callable[..., Any], rotation: Rotation, rotary_mul: RotaryMul) -> Callable[..., Any]:
    return arguments(_Rotary(rotation, rotary_mul))


IMPLEMENTATIONS = {
    name: functools.partial(_built, arguments, rotation) for name, (arguments, rotation) in _FORMS.items()
}
