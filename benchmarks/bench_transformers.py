"""What the patches for transformers cost when a model file is imported, and what they save when a model runs.

Needs transformers; without it there are no figures.
"""

from __future__ import annotations

import importlib.util
import json
import statistics
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Callable, Iterator

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


def _unpatched_llama() -> ModuleType:
    """A second copy of the module, which no patch reaches: it is loaded from its file and not imported."""
    file = (
        Path(str(importlib.util.find_spec("transformers").origin)).parent / "models/llama/modeling_llama.py"
    )
    spec = importlib.util.spec_from_file_location("transformers.models.llama.unpatched", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _step(model: Any, input_ids: Any) -> Callable[[], None]:
    """Forward and backward of a model."""

    def step() -> None:
        model.zero_grad()
        model(input_ids=input_ids, labels=input_ids, use_cache=False).loss.backward()

    return step


def _steps() -> Iterator[Figure]:
    import torch
    import transformers.models.llama.modeling_llama as upstream

    import transformers_patches
    from patcher_core import Patcher, configure_summary

    configure_summary(False)
    torch.set_num_threads(1)
    config = upstream.LlamaConfig(
        hidden_size=256, intermediate_size=512, num_hidden_layers=4, num_attention_heads=8, vocab_size=256
    )
    unpatched = _unpatched_llama().LlamaForCausalLM(config)
    input_ids = torch.randint(0, 256, (2, 128))
    with Patcher(backend="portable").add(*transformers_patches.STRUCTURAL):
        patched = upstream.LlamaForCausalLM(config)
        patched.load_state_dict(unpatched.state_dict())
        for dtype in (torch.float32, torch.bfloat16):
            ours, peer = (_step(model.to(dtype), input_ids) for model in (patched, unpatched))
            name = f"transformers: a step of 4 layers in {str(dtype).partition('.')[2]}, patched"
            yield Figure(name, paired(ours, peer, pairs=31), 1.0, "unpatched")


def figures() -> Iterator[Figure | Amount]:
    if importlib.util.find_spec("transformers") is None:
        print("no transformers here, so no figures of it", file=sys.stderr)
        return
    yield Amount(
        "transformers: a model file imported patched, more than unpatched", _import_cost() * 1e3, "ms", None
    )
    yield from _steps()
