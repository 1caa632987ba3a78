"""Attention with the fused operator in models, its portable implementation against upstream's eager one."""

from __future__ import annotations

import importlib.metadata
import importlib.util

import pytest

torch = pytest.importorskip("torch")

if importlib.util.find_spec("transformers") is None:
    pytest.skip("transformers is not installed in this environment", allow_module_level=True)

import attention_models  # noqa: E402
import tiny_models  # noqa: E402

from patcher_core import Patcher  # noqa: E402
from transformers_patches import FlashAttention, FlashAttentionVarlen, FusionAttention  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
VERSION = tuple(int(part) for part in importlib.metadata.version("transformers").split(".")[:2])
if VERSION < (4, 51):
    pytest.skip("transformers before 4.51 takes no attention of others", allow_module_level=True)


@pytest.fixture(autouse=True)
def registered():
    with Patcher(backend="portable").add(FusionAttention) as patcher:
        yield patcher


# ---------------------------------------------------------------------- as an attention implementation
@pytest.mark.parametrize("case", attention_models.CASES)
def test_a_model_computes_what_its_eager_attention_does(case):
    eager, fused = attention_models.pair(case, "npu_fusion_attention")
    for inputs, real in attention_models.inputs(case):
        found, expected = (
            attention_models.values_and_gradients(model, inputs, real) for model in (fused, eager)
        )
        assert tiny_models.largest_difference(found, expected) <= 1e-5


@pytest.mark.parametrize("case", attention_models.CASES)
def test_generation_with_a_cache_gives_the_tokens_of_eager_attention(case):
    eager, fused = attention_models.pair(case, "npu_fusion_attention")
    for inputs, _ in attention_models.inputs(case):
        if "position_ids" not in inputs:
            chosen = {**inputs, "max_new_tokens": 9, "do_sample": False}
            assert torch.equal(fused.generate(**chosen), eager.generate(**chosen))


def test_a_sequence_in_a_packed_batch_is_as_it_is_alone():
    if VERSION < (4, 53):
        pytest.skip("transformers below 4.53 knows packed sequences with flash_attention_2 only")
    _, fused = attention_models.pair("llama", "npu_fusion_attention")
    tokens = torch.randint(3, 60, (1, 11))
    positions = torch.cat((torch.arange(4), torch.arange(7))).unsqueeze(0)
    together = fused(tokens, position_ids=positions, use_cache=False).logits
    alone = [fused(part, use_cache=False).logits for part in (tokens[:, :4], tokens[:, 4:])]
    torch.testing.assert_close(together, torch.cat(alone, dim=1), rtol=1e-5, atol=1e-5)


def test_cumulative_lengths_pack_a_batch_as_well():
    _, fused = attention_models.pair("llama", "npu_fusion_attention")
    tokens = torch.randint(3, 60, (1, 11))
    lengths = torch.tensor([0, 4, 11], dtype=torch.int32)
    positions = torch.cat((torch.arange(4), torch.arange(7))).unsqueeze(0)
    packed = {"cu_seq_lens_q": lengths, "cu_seq_lens_k": lengths, "max_length_q": 7, "max_length_k": 7}
    together = fused(tokens, position_ids=positions, use_cache=False, **packed).logits
    alone = [fused(part, use_cache=False).logits for part in (tokens[:, :4], tokens[:, 4:])]
    torch.testing.assert_close(together, torch.cat(alone, dim=1), rtol=1e-5, atol=1e-5)


def test_dropout_drops_in_training_only_and_keeps_the_mean():
    _, fused = attention_models.pair("llama", "npu_fusion_attention", attention_dropout=0.4)
    layer = fused.model.layers[0].self_attn
    layer.o_proj.weight.data = torch.eye(32)
    hidden = torch.randn(1, 6, 32)
    angles = fused.model.rotary_emb(hidden, torch.arange(6)[None])

    def attended():
        return layer(hidden, position_embeddings=angles, attention_mask=None)[0]

    whole = attended()
    assert torch.equal(attended(), whole)
    layer.train()
    draws = torch.stack([attended() for _ in range(3000)])
    assert not torch.equal(draws[0], draws[1])
    deviation = draws.std(dim=0) / 3000**0.5
    assert ((draws.mean(dim=0) - whole).abs() <= 6 * deviation + 1e-5).all()


def test_the_scale_is_the_layers_own():
    eager, fused = attention_models.pair("llama", "npu_fusion_attention")
    for model in (eager, fused):
        for layer in model.model.layers:
            layer.self_attn.scaling = 0.9
    tokens = torch.randint(3, 60, (2, 8))
    expected = eager(tokens).logits
    torch.testing.assert_close(fused(tokens).logits, expected, rtol=1e-5, atol=1e-5)
    fused.model.layers[0].self_attn.scaling = 0.1
    assert not torch.allclose(fused(tokens).logits, expected, rtol=1e-2, atol=1e-2)


def test_what_the_operator_cannot_do_is_refused_by_name():
    _, fused = attention_models.pair("gemma2", "npu_fusion_attention")
    with pytest.raises(ValueError, match=r"cannot do softcap, which Gemma2Attention asks for; .*eager"):
        fused(torch.randint(3, 60, (2, 8)))


def test_a_model_compiles_to_one_graph():
    _, fused = attention_models.pair("llama", "npu_fusion_attention")
    tokens = torch.randint(3, 60, (2, 8))
    compiled = torch.compile(fused, fullgraph=True, backend="aot_eager")
    expected = fused(tokens, use_cache=False).logits
    torch.testing.assert_close(compiled(tokens, use_cache=False).logits, expected, rtol=1e-5, atol=1e-5)


def test_after_restore_the_name_is_unknown_again(registered):
    registered.restore()
    with pytest.raises((ValueError, KeyError), match="npu_fusion_attention"):
        attention_models.pair("llama", "npu_fusion_attention")


@pytest.mark.parametrize("fault", ["one more key", "no scale", "heads in another order", "no padding"])
def test_a_wrong_operator_would_be_seen(monkeypatch, fault):
    from transformers_patches import attention_functions
    from transformers_patches.attention_operators import PORTABLE, portable_attention

    def wrong(query, key, value, mask, pattern, scale, dropout):
        if fault == "one more key":
            pattern, mask = pattern._replace(causal=False, window=(-1, 1)), None
        elif fault == "no scale":
            scale = 1.0
        elif fault == "heads in another order":
            group = query.shape[1] // key.shape[1]
            key, value = key.repeat(1, group, 1, 1), value.repeat(1, group, 1, 1)
        elif mask is not None:
            pattern, mask = pattern._replace(causal=True, upper_left=False), None
        return portable_attention(query, key, value, mask, pattern, scale, dropout)

    monkeypatch.setattr(attention_functions, "PORTABLE", PORTABLE._replace(attention=wrong))
    with pytest.raises(AssertionError):
        test_a_model_computes_what_its_eager_attention_does("llama")


# ---------------------------------------------------------------------- in place of flash_attn
@pytest.fixture
def flash():
    if VERSION >= (4, 53):
        pytest.skip(
            "transformers 4.53 and later make the mask once themselves: FlashAttention leaves them alone"
        )
    with Patcher(backend="portable").add(FlashAttention, FlashAttentionVarlen):
        from transformers.integrations import npu_flash_attention

        yield npu_flash_attention


def _explicit(q, k, v, scale, allowed):
    """Attention by its formula, (sequence, heads, D) each; ``allowed`` (queries, keys)."""
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    scores = torch.einsum("qhd,khd->hqk", q, k) * scale
    probabilities = scores.masked_fill(~allowed, float("-inf")).softmax(dim=-1)
    return torch.einsum("hqk,khd->qhd", probabilities, v)


PATTERNS = [(True, (-1, -1)), (False, (-1, -1)), (True, (2, 2)), (False, (2, 1)), (True, (0, 0))]


def _allowed(queries, keys, causal, window):
    before, after = (size if size >= 0 else keys for size in window)
    return torch.tensor(
        [
            [-before <= column - row - (keys - queries) <= (0 if causal else after) for column in range(keys)]
            for row in range(queries)
        ]
    )


@pytest.mark.parametrize(("causal", "window"), PATTERNS)
@pytest.mark.parametrize("scale", [None, 0.7])
def test_flash_attention_is_what_its_formula_says(flash, causal, window, scale):
    q, k, v = torch.randn(2, 5, 4, 8), torch.randn(2, 7, 2, 8), torch.randn(2, 7, 2, 8)
    found = flash.npu_flash_attn_func(q, k, v, 0.0, softmax_scale=scale, causal=causal, window_size=window)
    allowed = _allowed(5, 7, causal, window)
    for one in range(2):
        expected = _explicit(q[one], k[one], v[one], scale or 8**-0.5, allowed)
        torch.testing.assert_close(found[one], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("causal", "window"), PATTERNS)
def test_flash_attention_of_several_lengths_is_that_of_each(flash, causal, window):
    lengths = torch.tensor([0, 3, 4, 9], dtype=torch.int32)
    q, k, v = torch.randn(9, 4, 8), torch.randn(9, 2, 8), torch.randn(9, 2, 8)
    found = flash.npu_flash_attn_varlen_func(
        q, k, v, cu_seqlens_q=lengths, cu_seqlens_k=lengths, causal=causal, window_size=window
    )
    for first, last in ((0, 3), (3, 4), (4, 9)):
        part, size = slice(first, last), last - first
        expected = _explicit(q[part], k[part], v[part], 8**-0.5, _allowed(size, size, causal, window))
        torch.testing.assert_close(found[part], expected, rtol=1e-5, atol=1e-6)


def test_later_versions_are_left_alone_and_say_so():
    if VERSION < (4, 53):
        pytest.skip("this version makes the mask at every call")
    with Patcher(backend="portable").add(FlashAttention) as patcher:
        (result,) = patcher.report
    version = importlib.metadata.version("transformers")
    assert result.status.value == "skipped" and f"found {version}" in result.reason, result
