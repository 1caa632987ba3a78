"""What the patches for transformers cost when a model file is imported, and what they save when a model runs.

Needs transformers; without it there are no figures.
"""

from __future__ import annotations

import importlib.util
import json
import statistics
import subprocess
import sys
from typing import Iterator

from .paired import Amount, Figure, paired

MODELS = ("llama", "qwen3", "gemma2", "mistral", "deepseek_v3", "glm")

#: CPU seconds to import each model file, in a fresh process that has imported another model's before.
_IMPORTS = """
import importlib, json, sys, time
from patcher_core import Patcher, configure_summary
import torch, transformers.models.mixtral.modeling_mixtral
configure_summary(False)
how, *models = sys.argv[1:]
if how == "patched":
    import transformers_patches
    Patcher(backend="portable").add(*transformers_patches.STRUCTURAL).apply(lazy=True)
seconds = []
for name in models:
    before = time.process_time()
    importlib.import_module(f"transformers.models.{name}.modeling_{name}")
    seconds.append(time.process_time() - before)
print(json.dumps(seconds))
"""
RUNS = 3


def _import_seconds(how: str) -> list[float]:
    command = [sys.executable, "-c", _IMPORTS, how, *MODELS]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds: list[float] = json.loads(done.stdout.splitlines()[-1])
    return seconds


def _import_cost() -> float:
    """Seconds that a lazily patched model file takes more than an unpatched one: the median over files and runs."""
    pairs = [(_import_seconds("patched"), _import_seconds("unpatched")) for _ in range(RUNS)]
    return statistics.median(
        patched - plain for ours, upstreams in pairs for patched, plain in zip(ours, upstreams)
    )


def _step(dtype_name: str) -> Figure:
    """Forward and backward of a model of 4 layers."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    import transformers_patches
    from patcher_core import Patcher, configure_summary

    configure_summary(False)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=256, intermediate_size=512, num_hidden_layers=4, num_attention_heads=8, vocab_size=256
    )
    model = LlamaForCausalLM(config).to(getattr(torch, dtype_name))
    input_ids = torch.randint(0, 256, (2, 128))
    patcher = Patcher(backend="portable").add(*transformers_patches.STRUCTURAL)

    def step() -> None:
        model.zero_grad()
        model(input_ids=input_ids, labels=input_ids, use_cache=False).loss.backward()

    def steps() -> None:
        for _ in range(4):
            step()

    def patched() -> None:
        with patcher:  # apply() and restore() take part: the figure is an upper bound
            steps()

    ratio = paired(patched, steps, pairs=9)
    return Figure(f"transformers: steps of 4 layers in {dtype_name}, patched", ratio, 1.0, "unpatched")


def figures() -> Iterator[Figure | Amount]:
    if importlib.util.find_spec("transformers") is None:
        print("no transformers here, so no figures of it", file=sys.stderr)
        return
    yield Amount(
        "transformers: a model file imported patched, more than unpatched", _import_cost() * 1e3, "ms", None
    )
    for dtype_name in ("float32", "bfloat16"):
        yield _step(dtype_name)
