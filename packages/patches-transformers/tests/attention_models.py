"""Tiny models with every kind of attention, and batches that show a wrong one: padded, longer than a window."""

from __future__ import annotations

import copy

import tiny_models
import torch

#: What each has besides causal attention.
CASES = {
    "llama": "grouped queries",
    "qwen2": "no grouped queries",
    "mistral": "a sliding window in every layer",
    "gemma3_text": "a sliding window in some layers, and a scale of its own",
}
WINDOW = 5


def pair(case, implementation, **changes):
    """The same random model with eager attention and with another implementation."""
    from transformers import CONFIG_MAPPING, AutoModelForCausalLM

    config = tiny_models.tiny_configuration(CONFIG_MAPPING[case])
    config.update(changes)
    if case == "qwen2":
        config.num_key_value_heads = config.num_attention_heads
    if "sliding" in CASES.get(case, ""):
        config.sliding_window = WINDOW
    config.use_cache = True
    models = [
        AutoModelForCausalLM.from_config(copy.deepcopy(config), attn_implementation=one).eval()
        for one in ("eager", implementation)
    ]
    for parameter in models[0].parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    models[1].load_state_dict(models[0].state_dict())
    assert [one.config._attn_implementation for one in models] == ["eager", implementation]
    return models


def inputs(case):
    """Arguments of a call, and which tokens are real (no padding)."""
    tokens = torch.randint(3, 60, (2, 12))
    whole = torch.ones_like(tokens)
    yield {"input_ids": tokens, "attention_mask": whole}, whole.bool()
    for padded in (slice(0, 4), slice(9, 12)):
        mask = whole.clone()
        mask[0, padded] = 0
        yield {"input_ids": tokens, "attention_mask": mask}, mask.bool()


def values_and_gradients(model, arguments, real):
    """Logits of the real tokens, and the gradients of a weighted sum of them."""
    logits = model(**arguments, use_cache=False).logits[real]
    weights = torch.linspace(-1, 1, logits.numel()).reshape(logits.shape).to(logits.device)
    gradients = torch.autograd.grad((logits * weights).sum(), list(model.parameters()), allow_unused=True)
    return [logits.detach(), *(one for one in gradients if one is not None)]
