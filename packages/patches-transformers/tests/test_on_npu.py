"""On the simulated NPU: the intended operators run, and give what the unpatched model gives on the CPU."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os

import pytest

torch = pytest.importorskip("torch")

if importlib.util.find_spec("transformers") is None:
    pytest.skip("transformers is not installed in this environment", allow_module_level=True)
if importlib.util.find_spec("patcher_testing") is None or "PATCHER_TESTING_NPU_PACKAGES" not in os.environ:
    pytest.skip("there is no torch_npu to simulate in this environment", allow_module_level=True)

import attention_models  # noqa: E402
import tiny_models  # noqa: E402

import transformers_patches  # noqa: E402
from patcher_core import Patcher  # noqa: E402
from patcher_testing.numerics import assert_same_numerics  # noqa: E402
from patcher_testing.schemas import record_calls, replay  # noqa: E402
from transformers_patches.attention_operators import NPU, PORTABLE, Pattern  # noqa: E402

pytestmark = [
    pytest.mark.simulated_npu,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

needs_4_51 = pytest.mark.skipif(
    tuple(map(int, importlib.metadata.version("transformers").split(".")[:2])) < (4, 51),
    reason="transformers before 4.51 takes no attention of others",
)
ALL = ("npu_rms_norm", "npu_rotary_mul", "npu_swiglu")
#: In Mixtral the experts are no ``*MLP`` (or one for each expert, in transformers 4); Gemma's gate is not silu.
OPERATORS = {
    **dict.fromkeys(("llama", "qwen3", "qwen2_5_vl", "qwen3_vl"), ALL),
    **dict.fromkeys(("mixtral", "gemma2"), ALL[:2]),
}


@pytest.mark.parametrize("family", OPERATORS)
def test_the_intended_operators_run_and_give_upstreams_logits_and_gradients(simulated_npu, family):
    if family not in tiny_models.families():
        pytest.skip(f"this version of transformers has no {family}")
    try:
        model, inputs, expected = tiny_models.model_that_runs(family)
    except Exception as error:
        if family not in ("qwen3_vl", "qwen2_5_vl"):
            raise
        pytest.skip(f"{family} does not build from a tiny configuration in this version: {error}")
    if hasattr(
        model, "set_experts_implementation"
    ):  # the others count with operators that have no CPU kernel
        model.set_experts_implementation("eager")
    with Patcher(backend="npu").add(*transformers_patches.STRUCTURAL):
        model = model.to("npu")
        with simulated_npu.record_operators() as operators, record_calls() as calls:
            moved = {name: one.to("npu") for name, one in inputs.items()}
            found = tiny_models.outputs_and_gradients(model, moved)
    for name in OPERATORS[family]:
        operators.assert_ran(name)
        operators.assert_ran(f"npu::{name}_backward")
    assert tiny_models.largest_difference([one.cpu() for one in found], expected) <= 1e-5
    replay(calls).assert_accepted()


@needs_4_51
@pytest.mark.parametrize("case", attention_models.CASES)
def test_attention_is_the_fused_operator_and_gives_what_eager_attention_gives(simulated_npu, case):
    with Patcher(backend="npu").add(transformers_patches.FusionAttention):
        eager, fused = attention_models.pair(case, "npu_fusion_attention")
        fused = fused.to("npu")
        for inputs, real in attention_models.inputs(case):
            expected = attention_models.values_and_gradients(eager, inputs, real)
            moved = {name: one.to("npu") for name, one in inputs.items()}
            with simulated_npu.record_operators() as operators, record_calls() as calls:
                found = attention_models.values_and_gradients(fused, moved, real.to("npu"))
            operators.assert_ran("npu_fusion_attention", times=fused.config.num_hidden_layers)
            operators.assert_ran("npu::npu_fusion_attention_grad", times=fused.config.num_hidden_layers)
            assert tiny_models.largest_difference([one.cpu() for one in found], expected) <= 1e-5
            replay(calls).assert_accepted()


PATTERNS = [
    Pattern(),
    Pattern(causal=True),
    Pattern(causal=True, upper_left=True),
    Pattern(causal=True, window=(3, -1)),
    Pattern(window=(2, 1)),
]


@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_both_operators_are_what_the_portable_ones_are(simulated_npu, pattern, dtype):
    def attention(operators):
        return lambda q, k, v: operators.attention(q, k, v, None, pattern, 0.3, 0.0)

    def packed(operators):
        return lambda q, k, v: operators.packed_attention(q, k, v, [3, 9], [4, 11], pattern, 0.3, 0.0)

    def batch(draw):
        size = draw.batch()
        return draw.tensor(size, 4, 9, 8), draw.tensor(size, 2, 11, 8), draw.tensor(size, 2, 11, 8)

    def tokens(draw):
        return draw.tensor(9, 4, 8), draw.tensor(11, 2, 8), draw.tensor(11, 2, 8)

    for function, inputs in ((attention, batch), (packed, tokens)):
        assert_same_numerics(function(NPU), function(PORTABLE), inputs, dtypes=[dtype], device="npu")


def test_an_additive_mask_may_be_a_bias_as_well(simulated_npu):
    q, k, v = torch.randn(2, 4, 6, 8), torch.randn(2, 4, 6, 8), torch.randn(2, 4, 6, 8)
    causal = torch.full((6, 6), torch.finfo(torch.float32).min).triu(1)
    for mask in (causal.expand(2, 1, 6, 6), torch.randn(1, 4, 6, 6) + causal, torch.randn(2, 1, 6, 6)):
        expected = PORTABLE.attention(q, k, v, mask, Pattern(), 0.3, 0.0)
        moved = [one.to("npu") for one in (q, k, v, mask)]
        found = NPU.attention(*moved, Pattern(), 0.3, 0.0)
        torch.testing.assert_close(found.cpu(), expected, rtol=1e-5, atol=1e-5)


def test_dropout_reaches_the_operator(simulated_npu):
    q = torch.randn(1, 2, 8, 8).npu()
    draws = [NPU.attention(q, q, q, None, Pattern(), 0.3, 0.5) for _ in range(2)]
    assert not torch.equal(*(one.cpu() for one in draws))


def test_what_is_not_on_the_npu_is_computed_where_it_is(simulated_npu):
    q = torch.randn(1, 2, 8, 8)
    with simulated_npu.record_operators() as operators:
        found = NPU.attention(q, q, q, None, Pattern(causal=True), 0.3, 0.0)
    operators.assert_did_not_run("npu_fusion_attention")
    assert torch.equal(found, PORTABLE.attention(q, q, q, None, Pattern(causal=True), 0.3, 0.0))


@needs_4_51
def test_flash_attention_runs_the_operator_with_a_mask_made_once(simulated_npu):
    from transformers.integrations import npu_flash_attention

    if hasattr(npu_flash_attention, "get_attn_mask_npu"):
        pytest.skip("this version of transformers makes the mask once itself")
    q, k = torch.randn(2, 7, 4, 8), torch.randn(2, 7, 2, 8)
    patches = (transformers_patches.FlashAttention, transformers_patches.FlashAttentionVarlen)
    lengths = torch.tensor([0, 3, 14], dtype=torch.int32)
    with Patcher(backend="npu").add(*patches), simulated_npu.record_operators() as operators:
        for _ in range(3):
            found = npu_flash_attention.npu_flash_attn_func(q.npu(), k.npu(), k.npu(), causal=True)
        packed = [one.flatten(0, 1) for one in (q, k, k)]
        found_packed = npu_flash_attention.npu_flash_attn_varlen_func(
            *(one.npu() for one in packed), lengths, lengths, causal=True
        )
    operators.assert_ran("npu_fusion_attention", times=4)
    assert operators.counts.get("aten::triu", 0) <= 1
    with Patcher(backend="portable").add(*patches):
        expected = npu_flash_attention.npu_flash_attn_func(q, k, k, causal=True)
        expected_packed = npu_flash_attention.npu_flash_attn_varlen_func(
            *packed, lengths, lengths, causal=True
        )
    torch.testing.assert_close(found.cpu(), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(found_packed.cpu(), expected_packed, rtol=1e-5, atol=1e-5)


@needs_4_51
@pytest.mark.parametrize(
    "patch", [transformers_patches.FlashAttention, transformers_patches.FlashAttentionVarlen]
)
def test_flash_attention_of_a_model_keeps_to_its_window(simulated_npu, patch):
    from transformers import modeling_flash_attention_utils as flash
    from transformers.integrations import npu_flash_attention

    if hasattr(npu_flash_attention, "get_attn_mask_npu"):
        pytest.skip("FlashAttention is for transformers below 4.53")
    q, k, v = torch.randn(1, 7, 4, 8), torch.randn(1, 7, 2, 8), torch.randn(1, 7, 2, 8)
    real = torch.ones(1, 7, dtype=torch.int64)
    real[0, 5:] = 0  # padding sends the model to the function of several lengths
    mask = real.npu() if patch is transformers_patches.FlashAttentionVarlen else None
    with Patcher(backend="npu").add(patch):
        found = flash._flash_attention_forward(
            q.npu(),
            k.npu(),
            v.npu(),
            mask,
            query_length=7,
            is_causal=True,
            sliding_window=2,
            softmax_scale=0.3,
        )
    row, column = torch.arange(7)[:, None], torch.arange(7)
    allowed = (column <= row) & (row - column <= 2)
    expected = torch.nn.functional.scaled_dot_product_attention(
        q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), allowed, scale=0.3, enable_gqa=True
    ).transpose(1, 2)
    length = 7 if mask is None else 5
    torch.testing.assert_close(found.cpu()[:, :length], expected[:, :length], rtol=1e-5, atol=1e-5)
