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

from .paired import Amount, Figure, Ratio, paired

MODELS = ("llama", "qwen3", "gemma2", "mistral", "deepseek_v3", "glm")

#: CPU seconds to import each model file, in a fresh process that has imported another model's before.
_IMPORTS = """
import importlib, json, sys, time
from patcher_core import Patcher, configure_summary
import torch
configure_summary(False)
how, *models = sys.argv[1:]
if how == "patched":
    import transformers_patches
    Patcher(backend="portable").add(*transformers_patches.STRUCTURAL).apply(lazy=True)
import transformers.models.mixtral.modeling_mixtral
seconds = []
for name in models:
    before = time.process_time()
    importlib.import_module(f"transformers.models.{name}.modeling_{name}")
    seconds.append(time.process_time() - before)
print(json.dumps(seconds))
"""
#: CPU seconds to find and hash in each file what the structural patches look for, and to parse the file.
_HASHES = """
import ast, gc, importlib.util, json, sys, time
from pathlib import Path
from patcher_core.fingerprints import definitions
import transformers_patches
definitions("class ANorm:\\n    def forward(self):\\n        pass\\n", "*Norm.forward")  # what is imported late
patterns = [patch.names for group in transformers_patches.STRUCTURAL for patch in group.patches()]
models = Path(importlib.util.find_spec("transformers").origin).parent / "models"
seconds = []
gc.disable()
for name in sys.argv[1:]:
    source = (models / name / f"modeling_{name}.py").read_text(encoding="utf-8")
    before = time.process_time()
    for pattern in patterns:
        definitions(source, pattern)
    hashed = time.process_time()
    ast.parse(source)
    seconds.append((hashed - before, time.process_time() - hashed))
print(json.dumps(seconds))
"""
RUNS = 3


def _measured(code: str, *arguments: str) -> Any:
    """What ``code``, run in a fresh process, prints as JSON in its last line."""
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def _import_cost() -> float:
    """Seconds that a lazily patched model file takes more than an unpatched one: the median over files and runs."""
    pairs = [
        (_measured(_IMPORTS, "patched", *MODELS), _measured(_IMPORTS, "unpatched", *MODELS))
        for _ in range(RUNS)
    ]
    return statistics.median(
        patched - plain for ours, upstreams in pairs for patched, plain in zip(ours, upstreams)
    )


def _hash_costs() -> tuple[float, Ratio]:
    """Seconds to hash what is looked for in the first model file, and those of later ones beside parsing them."""
    first, later = [], []
    for _ in range(RUNS):
        (hashing, _), *others = _measured(_HASHES, "mixtral", *MODELS)
        first.append(hashing)
        later += others
    return statistics.median(first), Ratio.of(later)


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
        hidden_size=512,
        intermediate_size=1408,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=4,
        vocab_size=1024,
    )
    unpatched = _unpatched_llama().LlamaForCausalLM(config)
    input_ids = torch.randint(0, config.vocab_size, (1, 256))
    with Patcher(backend="portable").add(*transformers_patches.STRUCTURAL):
        patched = upstream.LlamaForCausalLM(config)
        patched.load_state_dict(unpatched.state_dict())
        for dtype in (torch.float32, torch.bfloat16):
            ours, peer = (_step(model.to(dtype), input_ids) for model in (patched, unpatched))
            name = f"transformers: a step of 4 layers of 512, 256 tokens, {str(dtype).partition('.')[2]}, patched"
            yield Figure(name, paired(ours, peer, pairs=61), 1.0, "unpatched")


def figures() -> Iterator[Figure | Amount]:
    if importlib.util.find_spec("transformers") is None:
        print("no transformers here, so no figures of it", file=sys.stderr)
        return
    first, later = _hash_costs()
    yield Amount("transformers: hashing the definitions of the first model file", first * 1e3, "ms", None)
    yield Amount("transformers: hashing those of a later one", later.ours_seconds * 1e3, "ms", 0.8)
    yield Figure("transformers: the same", later, None, "ast.parse of the file")
    yield Amount(
        "transformers: a model file imported patched, more than unpatched", _import_cost() * 1e3, "ms", None
    )
    yield from _steps()
