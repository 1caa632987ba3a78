"""Whole models, tiny and built from a configuration, behave patched as they do unpatched."""

from __future__ import annotations

import ast
import copy
import importlib.util
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

if importlib.util.find_spec("transformers") is None:
    pytest.skip("transformers is not installed in this environment", allow_module_level=True)

import tiny_models  # noqa: E402

import transformers_patches  # noqa: E402
from patcher_core import Patcher  # noqa: E402
from transformers_patches import gated_mlp_forms, rms_norm_forms, rotary_forms  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

HAS_QWEN3 = importlib.util.find_spec("transformers.models.qwen3") is not None
needs_qwen3 = pytest.mark.skipif(not HAS_QWEN3, reason="transformers before 4.51 has no Qwen3")
FAMILIES = ["llama", "qwen2", *(["qwen3"] if HAS_QWEN3 else []), "gemma2", "mixtral"]


def pytest_generate_tests(metafunc):
    if "family" in metafunc.fixturenames:
        every = metafunc.config.getoption("--all-families")
        metafunc.parametrize("family", tiny_models.families_with_copies() if every else FAMILIES)


def test_logits_and_gradients_are_those_of_the_unpatched_model(family, seed):
    outcome = tiny_models.compare(family, seed)
    if not outcome.built and family not in FAMILIES:
        pytest.skip(f"{family} does not build from a tiny configuration: {outcome.problem}")
    assert not outcome.problem
    assert outcome.equal_to_the_bit or family not in FAMILIES
    assert outcome.norms + outcome.rotations + outcome.gated_mlps > 0, outcome


def _another_epsilon(x, weight, epsilon, rounds_first=False):
    return rms_norm_forms.portable_rms_norm(x, weight, epsilon + 1e-4, rounds_first)


def _a_gradient_of_the_weight_half_as_large(x, weight, epsilon, rounds_first=False):
    weight = (weight + weight.detach()) / 2
    return rms_norm_forms.portable_rms_norm(x, weight, epsilon, rounds_first)


def _half_precision_where_upstream_has_single(x, weight, epsilon, rounds_first=False):
    normalised = torch.nn.functional.rms_norm(x.bfloat16(), x.shape[-1:], None, epsilon)
    return weight * normalised.to(x.dtype)


def _a_rotation_by_another_angle(x, cos, sin, interleaved):
    return rotary_forms.portable_rotary_mul(x, cos, sin * 1.001, interleaved)


def _a_gate_of_gelu(gate, up=None):
    return torch.nn.functional.gelu(gate) * up


@pytest.mark.parametrize("model_type", ["llama", "qwen3" if HAS_QWEN3 else "qwen2"])
@pytest.mark.parametrize(
    ("forms", "wrong"),
    [
        (rms_norm_forms, _another_epsilon),
        (rotary_forms, _a_rotation_by_another_angle),
        (gated_mlp_forms, _a_gate_of_gelu),
    ],
)
def test_each_operator_runs_in_a_model_so_that_a_wrong_one_would_be_seen(
    monkeypatch, model_type, forms, wrong
):
    monkeypatch.setitem(forms.OPERATORS, "portable", wrong)
    assert "float32 differs by" in tiny_models.compare(model_type).problem


@pytest.mark.parametrize(
    "wrong",
    [_a_gradient_of_the_weight_half_as_large, _half_precision_where_upstream_has_single],
)
def test_a_subtly_wrong_operator_would_be_seen(monkeypatch, wrong):
    monkeypatch.setitem(rms_norm_forms.OPERATORS, "portable", wrong)
    assert "float32 differs by" in tiny_models.compare("llama").problem


def test_an_operator_that_is_wrong_in_bfloat16_only_would_be_seen(monkeypatch):
    def wrong(x, weight, epsilon, rounds_first=False):
        right = rms_norm_forms.portable_rms_norm(x, weight, epsilon, rounds_first)
        return right if x.dtype is torch.float32 else right * 1.05

    monkeypatch.setitem(rms_norm_forms.OPERATORS, "portable", wrong)
    assert "bfloat16 differs by" in tiny_models.compare("llama").problem


def test_rounding_at_another_place_is_not_equal_to_the_bit(monkeypatch):
    def wrong(x, weight, epsilon, rounds_first=False):
        return rms_norm_forms.portable_rms_norm(x, weight, epsilon, not rounds_first)

    monkeypatch.setitem(rms_norm_forms.OPERATORS, "portable", wrong)
    assert not tiny_models.compare("llama").equal_to_the_bit


@pytest.fixture
def llama():
    return tiny_models.tiny_model("llama")


@pytest.fixture
def patched():
    with Patcher(backend="portable").add(*transformers_patches.ALL) as patcher:
        yield patcher


PROMPT = torch.tensor([[5, 9, 3, 17], [8, 2, 44, 6]])


def _generated(model):
    return model.generate(PROMPT, attention_mask=torch.ones_like(PROMPT), max_new_tokens=12, do_sample=False)


def test_generation_with_a_cache_gives_the_same_tokens(llama):
    expected = _generated(llama)
    with Patcher(backend="portable").add(*transformers_patches.ALL):
        assert torch.equal(_generated(llama), expected)


def _gradients(model):
    model.zero_grad()
    model(PROMPT, labels=PROMPT, use_cache=False).loss.backward()
    return [parameter.grad.clone() for parameter in model.parameters()]


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_gradient_checkpointing_gives_the_same_gradients(llama, use_reentrant):
    llama.train()
    expected = _gradients(llama)
    with Patcher(backend="portable").add(*transformers_patches.ALL):
        llama.gradient_checkpointing_enable({"use_reentrant": use_reentrant})
        assert tiny_models.largest_difference(_gradients(llama), expected) <= 1e-5


def test_copies_pickles_and_state_dicts_of_a_patched_model_are_those_of_upstream(llama, patched):
    copies = [copy.deepcopy(llama)]
    if tiny_models.keeps_its_rotation(llama):
        with pytest.raises(pickle.PicklingError, match="apply_rotary_pos_emb"):
            pickle.dumps(llama)
    else:
        copies.append(pickle.loads(pickle.dumps(llama)))
    for again in copies:
        assert torch.equal(again(PROMPT).logits, llama(PROMPT).logits)
    function = sys.modules[type(llama).__module__].apply_rotary_pos_emb
    assert pickle.loads(pickle.dumps(function)) is function
    keys = set(llama.state_dict())
    patched.restore()
    assert set(llama.state_dict()) == keys
    assert torch.equal(pickle.loads(pickle.dumps(llama))(PROMPT).logits, llama(PROMPT).logits)


def test_a_patched_model_is_saved_and_loaded(llama, patched, tmp_path):
    llama.save_pretrained(tmp_path)
    again = type(llama).from_pretrained(tmp_path, attn_implementation="eager")
    torch.testing.assert_close(again(PROMPT).logits, llama(PROMPT).logits, rtol=1e-5, atol=1e-5)


def test_a_patched_model_compiles_to_one_graph(llama, patched):
    expected = llama(PROMPT, use_cache=False).logits
    compiled = torch.compile(llama, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(PROMPT, use_cache=False).logits, expected, rtol=1e-5, atol=1e-5)


def _run(code):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_model_is_imported_for_the_patches_and_later_ones_are_patched():
    _run(
        """
        import sys
        import transformers_patches
        assert "torch" not in sys.modules and "transformers" not in sys.modules
        from patcher_core import Patcher
        patcher = Patcher(backend="portable").add(*transformers_patches.ALL).apply()
        assert not [name for name in sys.modules if name.startswith("transformers.models.") and ".modeling_" in name]
        from transformers.models.llama import modeling_llama
        own = modeling_llama.__name__ + "."
        applied = {r.name[len(own):] for r in patcher.report if r.status.value == "applied" and r.name.startswith(own)}
        assert applied == {"LlamaRMSNorm.forward", "apply_rotary_pos_emb", "LlamaMLP.forward"}, applied
        """
    )


def test_a_copy_with_one_edited_line_is_left_alone_and_named(tmp_path):
    models = Path(importlib.util.find_spec("transformers").origin).parent / "models"
    text = (models / "llama" / "modeling_llama.py").read_text(encoding="utf-8")
    wanted = ("LlamaRMSNorm", "rotate_half", "apply_rotary_pos_emb")
    parts = [
        ast.get_source_segment(text, node)
        for node in ast.parse(text).body
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name in wanted
    ]
    upstream = "\n\n".join(["import torch", "from torch import nn", *parts])
    edited = upstream.replace("torch.cat((-x2, x1), dim=-1)", "torch.cat((-x2, 2 * x1), dim=-1)")
    assert edited != upstream
    for folder, source in (("same", upstream), ("drifted", edited)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"modeling_{folder}.py").write_text(source, encoding="utf-8")
    _run(
        f"""
        import importlib
        import transformers.models
        import transformers_patches
        from patcher_core import Patcher

        transformers.models.__path__.append({str(tmp_path)!r})
        patcher = Patcher(backend="portable").add(*transformers_patches.ALL).apply()
        for folder in ("same", "drifted"):
            importlib.import_module(f"transformers.models.{{folder}}.modeling_{{folder}}")
        lines = {{r.name[len("transformers.models."):]: (r.status.value, r.reason) for r in patcher.report}}
        for applied in ("same.modeling_same.LlamaRMSNorm.forward", "same.modeling_same.apply_rotary_pos_emb",
                        "drifted.modeling_drifted.LlamaRMSNorm.forward"):
            assert lines[applied] == ("applied", ""), lines
        status, reason = lines["drifted.modeling_drifted.apply_rotary_pos_emb"]
        assert status == "skipped" and "not a known one" in reason, lines
        """
    )


def _applied(*patches):
    import transformers.models.llama.modeling_llama
    import transformers.models.qwen3.modeling_qwen3  # noqa: F401

    with Patcher(backend="portable").add(*patches) as patcher:
        wanted = ("modeling_llama.", "modeling_qwen3.")
        return {
            result.name.rpartition("modeling_")[2]
            for result in patcher.report
            if result.status.value == "applied" and any(one in result.name for one in wanted)
        }


@needs_qwen3
def test_a_view_patches_its_model_alone():
    assert _applied(transformers_patches.Qwen3RMSNorm) == {"qwen3.Qwen3RMSNorm.forward"}
    assert _applied(transformers_patches.Qwen3RoPE) == {"qwen3.apply_rotary_pos_emb"}


@needs_qwen3
def test_the_composite_is_everything():
    assert _applied(transformers_patches.TransformersNPU) == _applied(*transformers_patches.ALL)
