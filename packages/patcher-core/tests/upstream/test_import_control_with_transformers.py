"""CUDA-only packages are installed and cannot run: with skip_import, torch and transformers do without them.

One process loads the libraries and writes down what it saw; each test looks at one of these facts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap

import pytest

CUDA_ONLY = ("flash_attn", "apex")

PROBES = """
import json, os, sys
facts = {}

def look(moment):
    from transformers.utils import is_apex_available, is_flash_attn_2_available
    from transformers.utils.import_utils import _is_package_available
    facts[moment] = {
        "is_apex_available": is_apex_available(),
        "is_flash_attn_2_available": is_flash_attn_2_available(),
        "flash_attn found": _is_package_available("flash_attn"),
    }
"""

SKIPPED = """
from patcher_core.imports import ImportControl

control = ImportControl()
control.skip("flash_attn", "apex")
control.skip("triton", only_for=("transformers.models.llama", "model_code"))

import torch
torch.set_num_threads(1)
torch.manual_seed(int(os.environ["TEST_SEED"]))
import transformers
import transformers.models.llama.modeling_llama as llama

look("before the stub is imported")
import flash_attn
from flash_attn import flash_attn_func
from apex.normalization import FusedRMSNorm
import model_code
look("after the stub is imported")

from torch.utils._triton import has_triton, has_triton_package
facts["torch believes in triton"] = has_triton() or has_triton_package()
facts["model code sees triton"] = model_code.kernel.__name__

config = transformers.LlamaConfig(
    hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2,
    vocab_size=64,
)
model = llama.LlamaForCausalLM(config).double().eval()
tokens = torch.randint(0, 64, (2, 8))
expected = model(tokens).logits
compiled = torch.compile(model, fullgraph=True, backend="aot_eager")(tokens).logits
facts["compiled model, largest difference"] = (compiled - expected).abs().max().item()

def attention(x):
    if isinstance(x, flash_attn.FlashTensor) or flash_attn_func:
        return flash_attn_func(x)
    return torch.softmax(x @ x.T, -1)

class First(flash_attn.Base, torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(2, 3)

class Last(torch.nn.Module, flash_attn.Base): ...

facts["parameters of a module beside a stub base"] = len(list(First().parameters()))
facts["bases of a module beside a stub base"] = [base.__name__ for base in Last.__mro__]

x = torch.randn(5, 5, dtype=torch.float64)
torch._dynamo.reset()
got = torch.compile(attention, fullgraph=True)(x)
facts["code with stubs in it, largest difference"] = (got - attention(x)).abs().max().item()
facts["triton in sys.modules"] = sorted(name for name in sys.modules if name.split(".")[0] == "triton")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two packages as they are after ``pip install`` on a machine without CUDA, and some model code."""
    root = tmp_path_factory.mktemp("installed")
    for name in CUDA_ONLY:
        (root / name).mkdir()
        (root / name / "__init__.py").write_text(
            "raise ImportError('libcudart.so.12: cannot open shared object file')\n"
        )
        info = root / f"{name}-2.8.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 2.8.0\n")
    (root / "model_code.py").write_text(
        textwrap.dedent("""
            import triton
            import triton.language as tl

            @triton.autotune(configs=[triton.Config({"BLOCK": n}) for n in (64, 128)], key=["n"])
            @triton.jit
            def kernel(x, n, BLOCK: tl.constexpr): ...
            """)
    )
    return root


def facts_of(folder, code):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(folder), *(entry for entry in sys.path if entry)])
    script = folder / "main.py"
    script.write_text(PROBES + code + "\nprint(json.dumps(facts))\n")
    result = subprocess.run(
        [sys.executable, str(script)],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=540,
    )
    assert result.returncode == 0, f"{result.stdout}\n--- stderr\n{result.stderr}"
    print(result.stderr)
    return json.loads(result.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def facts(folder):
    return facts_of(folder, SKIPPED)


def test_without_skip_import_transformers_believes_in_what_cannot_run(folder):
    found = facts_of(folder, 'look("now")')["now"]
    assert found["is_apex_available"] and found["flash_attn found"]


@pytest.mark.parametrize("moment", ["before the stub is imported", "after the stub is imported"])
def test_transformers_does_not_believe_in_skipped_packages(facts, moment):
    assert facts[moment] == dict.fromkeys(facts[moment], False)


def test_torch_does_not_believe_in_triton_while_model_code_imports_it(facts):
    assert facts["model code sees triton"] == "kernel"
    assert facts["torch believes in triton"] is False
    assert facts["triton in sys.modules"] == []


def test_a_compiled_llama_computes_what_the_eager_one_does(facts):
    assert facts["compiled model, largest difference"] < 1e-12


def test_the_default_compiler_takes_code_that_asks_stubs(facts):
    assert facts["code with stubs in it, largest difference"] < 1e-12


def test_a_module_beside_a_stub_base_is_a_module(facts):
    assert facts["parameters of a module beside a stub base"] == 2
    assert facts["bases of a module beside a stub base"] == ["Last", "Module", "object"]
