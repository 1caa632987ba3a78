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

#: CPU seconds that looking at one model file takes: its definitions of the three patches, fingerprints included.
_LOOKS = """
import importlib.util, json, pathlib, time
from patcher_core.fingerprints import definitions
models = pathlib.Path(importlib.util.find_spec("transformers").origin).parent / "models"
seconds = []
for name in ("llama", "qwen3", "gemma2", "mistral", "deepseek_v3", "glm"):
    source = (models / name / f"modeling_{name}.py").read_text()
    before = time.process_time()
    for names in ("*RMSNorm.forward", "apply_rotary_pos_emb*", "*MLP.forward"):
        definitions(source, names)
    seconds.append(time.process_time() - before)
print(json.dumps(seconds))
"""


def _model_figure(dtype_name: str) -> Figure:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    import transformers_patches
    from patcher_core import Patcher

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

    def patched() -> None:
        with patcher:
            step()

    # apply() and restore() take part in the patched side: the figure is an upper bound.
    ratio = paired(patched, step, pairs=21)
    return Figure(f"transformers: a step of 4 layers, {dtype_name}, patched", ratio, 1.0, "unpatched")


def figures() -> Iterator[Figure | Amount]:
    if importlib.util.find_spec("transformers") is None:
        return
    done = subprocess.run([sys.executable, "-c", _LOOKS], check=True, capture_output=True, text=True)
    looks = statistics.median(json.loads(done.stdout.splitlines()[-1]))
    yield Amount("transformers: looking at a model file when it is imported", looks * 1e3, "ms", 10)
    for dtype_name in ("float32", "bfloat16"):
        yield _model_figure(dtype_name)
