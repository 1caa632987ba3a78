"""`apply_to` and `restore_from`: one model that is built already."""

from __future__ import annotations

import importlib
import importlib.util

import pytest

torch = pytest.importorskip("torch")

if importlib.util.find_spec("transformers") is None:
    pytest.skip("transformers is not installed in this environment", allow_module_level=True)

import tiny_models  # noqa: E402

import transformers_patches  # noqa: E402
from patcher_core import Patcher  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
PROMPT = torch.tensor([[5, 9, 3, 17], [8, 2, 44, 6]])


@pytest.fixture
def llama():
    return tiny_models.tiny_model("llama")


def _applied(patcher):
    return {
        result.name.rpartition("modeling_")[2]
        for result in patcher.report
        if result.status.value == "applied"
    }


def _forwards(model):
    return {name: type(part).forward for name, part in model.named_modules()}


def test_a_model_that_is_built_already_is_patched_and_computes_the_same(llama):
    expected, upstreams = llama(PROMPT).logits, _forwards(llama)
    patcher = transformers_patches.apply_to(llama, backend="portable")
    try:
        assert _applied(patcher) == {
            "llama.LlamaRMSNorm.forward",
            "llama.LlamaMLP.forward",
            "llama.apply_rotary_pos_emb",
        }
        changed = {
            name.rpartition(".")[2] for name, one in _forwards(llama).items() if one is not upstreams[name]
        }
        assert changed == {"input_layernorm", "post_attention_layernorm", "norm", "mlp"}
        assert torch.equal(llama(PROMPT).logits, expected)
    finally:
        transformers_patches.restore_from(llama)
    assert _forwards(llama) == upstreams


def test_models_of_other_files_are_left_alone(llama):
    other = tiny_models.tiny_model("qwen2")
    upstreams = _forwards(other)
    transformers_patches.apply_to(llama, backend="portable")
    try:
        assert _forwards(other) == upstreams
    finally:
        transformers_patches.restore_from(llama)


def test_applying_twice_is_applying_once(llama):
    patcher = transformers_patches.apply_to(llama, backend="portable")
    once = _forwards(llama)
    assert transformers_patches.apply_to(llama, backend="portable") is patcher
    assert _forwards(llama) == once
    transformers_patches.restore_from(llama)
    with pytest.raises(ValueError, match="was not called for this LlamaForCausalLM"):
        transformers_patches.restore_from(llama)


def test_what_a_patcher_applied_survives_restore_from(llama):
    upstreams = _forwards(llama)
    with Patcher(backend="portable").add(*transformers_patches.STRUCTURAL):
        patched = _forwards(llama)
        assert patched != upstreams
        transformers_patches.apply_to(llama, backend="portable")
        transformers_patches.restore_from(llama)
        assert _forwards(llama) == patched
    assert _forwards(llama) == upstreams


def test_a_known_source_in_a_projects_own_file_is_patched(tmp_path, monkeypatch):
    import inspect

    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    source = f"import torch\nfrom torch import nn\n\n\n{inspect.getsource(LlamaRMSNorm)}"
    source = source.replace('@use_kernel_forward_from_hub("RMSNorm")\n', "")
    (tmp_path / "my_project_model.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    norm = importlib.import_module("my_project_model").LlamaRMSNorm(8)
    patcher = transformers_patches.apply_to(norm, backend="portable")
    applied = [result.name for result in patcher.report if result.status.value == "applied"]
    transformers_patches.restore_from(norm)
    assert applied == ["my_project_model.LlamaRMSNorm.forward"]


def test_what_is_no_model_is_refused():
    with pytest.raises(TypeError, match=r"expected a torch\.nn\.Module, got 'llama'"):
        transformers_patches.apply_to("llama")
    with pytest.raises(TypeError, match=r"expected a torch\.nn\.Module"):
        transformers_patches.restore_from(None)
