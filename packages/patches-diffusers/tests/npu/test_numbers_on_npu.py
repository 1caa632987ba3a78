"""On the simulated NPU: CUDA's numbers, by the operators that are meant. diffusers takes its branch for CUDA here."""

from __future__ import annotations

import pytest

pytest.importorskip("diffusers", reason="these are patches of diffusers")

import torch
from copies import copies
from masked_models import BATCH, HEADS, KEYS, QUERIES, SHAPES, TEXT_WIDTH, WIDTH, attention, expanded, mask_of
from upstream_calls import variants_of

import diffusers_patches
from patcher_core import Patcher
from patcher_testing.numerics import CASES, assert_same_numerics
from patcher_testing.schemas import record_calls, replay

pytestmark = pytest.mark.simulated_npu

OPERATORS = {
    "RMSNorm": {"npu_rms_norm", "npu_rms_norm_backward"},
    "GEGLU": {"npu_geglu", "npu_geglu_grad"},
    "GELU": {"npu_gelu", "npu_fast_gelu"},
    "RotaryEmbedding": {"npu_rotary_mul", "npu_rotary_mul_backward"},
}


def _calls():
    seen = set()
    for name in OPERATORS:
        group = getattr(diffusers_patches, name)
        (patch,) = group.patches({"backend": "npu"})
        for copy in copies(patch):
            if copy.fingerprint in patch.forms and copy.fingerprint not in seen:
                seen.add(copy.fingerprint)
                for variant, (call, inputs) in variants_of(copy).items():
                    yield pytest.param(name, copy, variant, call, inputs, id=f"{copy.qualname}-{variant}")


@pytest.mark.parametrize(("name", "copy", "variant", "call", "inputs"), list(_calls()))
def test_the_operator_computes_what_upstream_computes_for_cuda(
    simulated_npu, name, copy, variant, call, inputs
):
    original = copy.function
    cases = [case for case in CASES if case.batch and (variant != "complex" or case.is_contiguous)]
    patcher = Patcher(backend="npu").add(getattr(diffusers_patches, name)).disable("transfer_to_npu")
    with patcher, simulated_npu.record_operators() as operators, record_calls() as calls:
        replacement = copy.function
        assert replacement is not original
        assert_same_numerics(call(replacement), call(original), inputs, device="npu", cases=cases)
    assert operators.counts.keys() & {f"npu::{operator}" for operator in OPERATORS[name]}
    replay(calls).assert_accepted()


@pytest.mark.parametrize("kind", ["float", "bool"])
@pytest.mark.parametrize("shape", SHAPES)
def test_attention_gets_a_mask_with_a_row_for_each_query_and_gives_what_the_cpu_gives(
    simulated_npu, shape, kind
):
    attn, mask = attention(), mask_of(SHAPES[shape], kind)
    x, text = torch.randn(BATCH, QUERIES, WIDTH), torch.randn(BATCH, KEYS, TEXT_WIDTH)
    wanted = attn(x, encoder_hidden_states=text, attention_mask=expanded(mask, QUERIES))
    attn = attn.npu()
    patcher = Patcher().add(diffusers_patches.AttnProcessor2_0).disable("transfer_to_npu")
    with patcher, simulated_npu.record_operators() as operators:
        found = attn(x.npu(), encoder_hidden_states=text.npu(), attention_mask=mask.npu())
    torch.testing.assert_close(found.cpu(), wanted, rtol=1e-4, atol=1e-5)
    (added,) = operators.of("aten::add_.Tensor")  # the scores, and the mask that is added to them
    assert [argument.shape for argument in added.args[:2]] == [(BATCH, HEADS, QUERIES, KEYS)] * 2
