"""What a model is called with: made from the parameters of its ``forward`` and the sizes in its configuration."""

from __future__ import annotations

import inspect
from typing import Any, Iterator

import torch

BATCH, POSITIONS = 2, 9
#: Spectrum frames and samples of sound, enough for what audio encoders cut away.
FRAMES, SAMPLES = 64, 1920
#: A picture of 4 x 4 patches, as models take it whose pictures differ in size.
GRID = (1, 4, 4)


def example_inputs(model: torch.nn.Module) -> Iterator[dict[str, torch.Tensor]]:
    """Keyword arguments to try one after the other: text where the model takes any, else pictures or sound."""
    parameters = inspect.signature(model.forward).parameters
    takes_anything = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    required = {
        one.name
        for one in parameters.values()
        if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD
    }
    config = model.config
    if "input_ids" in parameters or (takes_anything and not required):
        text = {"input_ids": torch.randint(3, 60, (BATCH, POSITIONS))}
        yield text
        yield {**text, "attention_mask": torch.ones(BATCH, POSITIONS, dtype=torch.long)}
    for name, makers in _MAKERS.items():
        for maker in makers if name in parameters else ():
            found = maker(name, config)
            if required <= set(found):
                yield found
            if "decoder_input_ids" in parameters:
                yield {**found, "decoder_input_ids": torch.randint(3, 60, (BATCH, POSITIONS))}


def _size(config: Any, *names: str, default: int) -> int:
    for name in names:
        found = getattr(config, name, None)
        if isinstance(found, (list, tuple)) and found:
            found = found[0]
        if isinstance(found, int):
            return found
    return default


def _channels(config: Any) -> int:
    return _size(config, "in_channels", "num_channels", "in_chans", default=3)


def _picture(name: str, config: Any) -> dict[str, torch.Tensor]:
    side = _size(config, "image_size", default=32)
    return {name: torch.randn(BATCH, _channels(config), side, side)}


def _pictures_of_one_grid(name: str, config: Any) -> dict[str, torch.Tensor]:
    patch = _size(config, "patch_size", default=8) ** 2 * _size(config, "temporal_patch_size", default=1)
    patches = torch.randn(BATCH * GRID[0] * GRID[1] * GRID[2], _channels(config) * patch)
    grid = torch.tensor([GRID] * BATCH)
    return {name: patches, "grid_thw": grid}


def _frames_last(name: str, config: Any) -> dict[str, torch.Tensor]:
    return {name: torch.randn(BATCH, _bins(config), FRAMES)}


def _frames_first(name: str, config: Any) -> dict[str, torch.Tensor]:
    return {name: torch.randn(BATCH, FRAMES, _bins(config))}


def _bins(config: Any) -> int:
    return _size(config, "num_mel_bins", "n_mels", "feature_size", "input_feat_size", default=80)


def _samples(name: str, config: Any) -> dict[str, torch.Tensor]:
    return {name: torch.randn(BATCH, _size(config, "audio_channels", default=1), SAMPLES)}


def _flat_samples(name: str, config: Any) -> dict[str, torch.Tensor]:
    return {name: torch.randn(BATCH, SAMPLES)}


_MAKERS = {
    "pixel_values": (_picture, _pictures_of_one_grid),
    "hidden_states": (_pictures_of_one_grid,),
    "input_features": (_frames_first, _frames_last),
    "input_values": (_samples, _flat_samples),
}
