"""The replacement of :mod:`transformers_patches.placeholder_mask`; it imports torch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def get_placeholder_mask(
    self: Any,
    input_ids: Tensor | None,
    inputs_embeds: Tensor,
    image_features: Tensor | None = None,
    video_features: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Masks (B, S, C) of the image tokens and of the video tokens.

    Args:
        input_ids: (B, S); None: the tokens are recognised by their embeddings.
        inputs_embeds: (B, S, C). image_features, video_features: (tokens, C), or None.

    Raises:
        ValueError: there are more or fewer tokens than features.
    """
    image, video = _masks(self, input_ids, inputs_embeds)
    _check("Image features and image", image, inputs_embeds, image_features)
    _check("Videos features and video", video, inputs_embeds, video_features)
    return _expanded(image, inputs_embeds), _expanded(video, inputs_embeds)


def get_placeholder_mask_of_5(
    self: Any,
    input_ids: Tensor | None,
    inputs_embeds: Tensor,
    image_features: Tensor | None = None,
    video_features: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The same with the check of transformers 5, which an environment variable turns off and which compiles.

    Raises:
        ValueError: there are more or fewer tokens than features.
    """
    from transformers.utils import torch_compilable_check

    image, video = _masks(self, input_ids, inputs_embeds)
    for what, mask, features in (("Image", image, image_features), ("Video", video, video_features)):
        if features is not None:
            tokens = mask.sum()
            torch_compilable_check(
                tokens * inputs_embeds.shape[-1] == features.numel(),
                f"{what} features and {what.lower()} tokens do not match,"
                f" tokens: {tokens}, features: {features.shape[0]}",
            )
    return _expanded(image, inputs_embeds), _expanded(video, inputs_embeds)


def _masks(model: Any, input_ids: Tensor | None, inputs_embeds: Tensor) -> tuple[Tensor, Tensor]:
    """(B, S): where the image tokens are, and where the video tokens are."""
    return (
        _is_token(model, model.config.image_token_id, input_ids, inputs_embeds),
        _is_token(model, model.config.video_token_id, input_ids, inputs_embeds),
    )


def _expanded(mask: Tensor, inputs_embeds: Tensor) -> Tensor:
    return mask.unsqueeze(-1).expand(inputs_embeds.shape).to(inputs_embeds.device)


def _check(what: str, mask: Tensor, inputs_embeds: Tensor, features: Tensor | None) -> None:
    if features is not None and mask.sum() * inputs_embeds.shape[-1] != features.numel():
        raise ValueError(f"{what} tokens do not match: tokens: {mask.sum()}, features {features.shape[0]}")


def _is_token(model: Any, token: int, input_ids: Tensor | None, inputs_embeds: Tensor) -> Tensor:
    if input_ids is not None:
        return input_ids == token
    embedding = model.get_input_embeddings()(torch.tensor(token, device=inputs_embeds.device))
    return (inputs_embeds == embedding).all(-1)
