"""Every known form in the installed transformers, on upstream's own code: equal to the bit, or a stated difference."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util

import pytest

torch = pytest.importorskip("torch")

if importlib.util.find_spec("transformers") is None:
    pytest.skip("transformers is not installed in this environment", allow_module_level=True)

import form_inputs  # noqa: E402
import survey_forms  # noqa: E402
from form_comparison import DTYPES, KINDS, assert_same, both, one_of_each, owner_of  # noqa: E402

from patcher_core import Patcher  # noqa: E402
from transformers_patches import (  # noqa: E402
    VIEWS,
    TransformersNPU,
    gated_mlp_forms,
    rms_norm_forms,
    rotary_forms,
)
from transformers_patches.gated_mlp import GATED_MLPS  # noqa: E402
from transformers_patches.rms_norm import RMS_NORMS  # noqa: E402
from transformers_patches.rotary_embedding import ROTARY_EMBEDDINGS  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

#: These take the root in another way (``x / sqrt``, ``x * pow(-0.5)``), so that float32 differs in its last place.
OTHER_ROOT = {"72343cec610b7c72", "92153b099581b867"}


# ---------------------------------------------------------------------- how much is known
#: Here every form was looked at. A version between two of these may have one of its own, which is left alone and named.
SURVEYED = ("4.48.3", "4.51.3", "4.53.3", "4.57.1", "4.57.6", "5.0.0", "5.24.0")


@pytest.mark.parametrize("kind", KINDS)
def test_every_form_in_the_installed_transformers_is_known_or_left_alone_for_a_reason(kind):
    found = survey_forms.coverage(KINDS[kind])
    version = importlib.metadata.version("transformers")
    print(f"transformers {version}, {kind}: {found.covered} of {found.meant} definitions, {found.share:.1%}")
    assert found.unknown == 0 or version not in SURVEYED
    assert found.share >= (0.95 if version in SURVEYED else 0.9)
    assert all(KINDS[kind].left_alone.values())
    assert not KINDS[kind].forms.keys() & KINDS[kind].left_alone.keys()


# ---------------------------------------------------------------------- RMSNorm
def _norm_calls(cls, dtypes):
    dtype, weight_dtype = dtypes
    for module in form_inputs.norms(cls, dtype, weight_dtype):
        x = (torch.randn(2, 3, form_inputs.WIDTH) * 3).to(dtype).requires_grad_()
        yield module, [x, module.weight], x


@pytest.mark.parametrize("dtypes", DTYPES, ids=str)
@pytest.mark.parametrize("copy", one_of_each("RMSNorm"))
def test_rms_norm_is_what_upstream_computes(copy, dtypes):
    cls, original, patched = both("RMSNorm", copy)
    for module, inputs, x in _norm_calls(cls, dtypes):
        assert_same(patched, original, inputs, module, x, exact=copy.fingerprint not in OTHER_ROOT)


def _rounds_at_the_wrong_place(x, weight, epsilon, rounds_first=False):
    if weight is None:
        return rms_norm_forms.portable_rms_norm(x, weight, epsilon) * 1.01
    return rms_norm_forms.portable_rms_norm(x, weight, epsilon, not rounds_first)


def _loses_epsilon(x, weight, epsilon, rounds_first=False):
    return rms_norm_forms.portable_rms_norm(x, weight, 0.0, rounds_first)


@pytest.mark.parametrize(
    ("wrong", "dtypes"),
    [(_rounds_at_the_wrong_place, DTYPES[2]), (_loses_epsilon, DTYPES[0])],
)
@pytest.mark.parametrize("copy", one_of_each("RMSNorm"))
def test_a_planted_wrong_rms_norm_is_found(copy, wrong, dtypes):
    if wrong is _rounds_at_the_wrong_place and copy.fingerprint == "eb4b083dbf1a70c8":
        dtypes = DTYPES[1]
    cls, original, _ = both("RMSNorm", copy)
    planted = rms_norm_forms.IMPLEMENTATIONS[RMS_NORMS.forms[copy.fingerprint]](wrong)
    with pytest.raises(AssertionError):
        for module, inputs, x in _norm_calls(cls, dtypes):
            assert_same(planted, original, inputs, module, x, exact=copy.fingerprint not in OTHER_ROOT)


# ---------------------------------------------------------------------- RotaryEmbedding
def _rotary_call(copy, function, dtypes):
    arguments = form_inputs.rotary_arguments(ROTARY_EMBEDDINGS.forms[copy.fingerprint], function, *dtypes)
    return [one for one in arguments.values() if torch.is_tensor(one) and one.requires_grad], arguments


@pytest.mark.parametrize("dtypes", DTYPES, ids=str)
@pytest.mark.parametrize("copy", one_of_each("RotaryEmbedding"))
def test_rotary_embedding_is_what_upstream_computes(copy, dtypes):
    _, original, patched = both("RotaryEmbedding", copy)
    inputs, arguments = _rotary_call(copy, original, dtypes)
    assert_same(patched, original, inputs, **arguments)
    if "position_ids" not in arguments or arguments["position_ids"] is not None:
        assert_same(patched, original, inputs, *arguments.values())


@pytest.mark.parametrize("copy", [c for c in one_of_each("RotaryEmbedding") if "optional_key" in c.id])
def test_a_key_that_may_be_absent_is_absent_here_too(copy):
    _, original, patched = both("RotaryEmbedding", copy)
    _, arguments = _rotary_call(copy, original, DTYPES[0])
    arguments["k"] = None
    found, expected = patched(**arguments), original(**arguments)
    assert type(found) is type(expected)
    if isinstance(expected, tuple):
        assert found[1] is None and expected[1] is None
        found, expected = found[0], expected[0]
    assert torch.equal(found, expected)


def _turns_the_other_way(x, cos, sin, interleaved):
    return rotary_forms.portable_rotary_mul(x, cos, -sin, interleaved)


def _pairs_other_channels(x, cos, sin, interleaved):
    return rotary_forms.portable_rotary_mul(x, cos, sin, not interleaved)


@pytest.mark.parametrize("wrong", [_turns_the_other_way, _pairs_other_channels])
@pytest.mark.parametrize("copy", one_of_each("RotaryEmbedding"))
def test_a_planted_wrong_rotation_is_found(copy, wrong):
    _, original, _ = both("RotaryEmbedding", copy)
    planted = rotary_forms.IMPLEMENTATIONS[ROTARY_EMBEDDINGS.forms[copy.fingerprint]](wrong)
    inputs, arguments = _rotary_call(copy, original, DTYPES[0])
    with pytest.raises(AssertionError):
        assert_same(planted, original, inputs, **arguments)


# ---------------------------------------------------------------------- GatedMLP
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("copy", one_of_each("GatedMLP"))
def test_gated_mlp_is_what_upstream_computes(copy, dtype):
    cls, original, patched = both("GatedMLP", copy)
    module, arguments = form_inputs.gated_mlp(cls, GATED_MLPS.forms[copy.fingerprint], dtype)
    inputs = [arguments[0], *module.parameters()]
    assert_same(patched, original, inputs, module, *arguments)


@pytest.mark.parametrize("copy", one_of_each("GatedMLP"))
def test_a_gate_that_is_not_silu_keeps_upstreams_code(copy):
    form = GATED_MLPS.forms[copy.fingerprint]
    if form not in GATED_MLPS.checks:
        pytest.skip("the source of this form says silu itself")
    cls, original, patched = both("GatedMLP", copy)
    module, arguments = form_inputs.gated_mlp(cls, form, torch.float32, torch.nn.GELU())
    assert_same(patched, original, [arguments[0]], module, *arguments)
    assert not torch.equal(gated_mlp_forms.IMPLEMENTATIONS[form](gated_mlp_forms.portable_swiglu)(module, *arguments),
                           original(module, *arguments))  # fmt: skip


@pytest.mark.parametrize("copy", one_of_each("GatedMLP"))
def test_a_planted_wrong_gate_is_found(copy):
    def swapped(gate, up=None):
        gate, up = gate.chunk(2, dim=-1) if up is None else (gate, up)
        return gated_mlp_forms.portable_swiglu(up, gate)

    form = GATED_MLPS.forms[copy.fingerprint]
    cls, original, _ = both("GatedMLP", copy)
    module, arguments = form_inputs.gated_mlp(cls, form, torch.float32)
    with pytest.raises(AssertionError):
        assert_same(
            gated_mlp_forms.IMPLEMENTATIONS[form](swapped), original, [arguments[0]], module, *arguments
        )


# ---------------------------------------------------------------------- single models
#: What each replaces in Qwen3 and Qwen3-VL, of what is in both.
IN_SINGLE_MODELS = {
    "qwen3_rmsnorm": {"qwen3.Qwen3RMSNorm.forward"},
    "qwen3_rope": {"qwen3.apply_rotary_pos_emb"},
    "qwen3_vl_text_rmsnorm": {"qwen3_vl.Qwen3VLTextRMSNorm.forward"},
    "qwen3_vl_rope": {"qwen3_vl.apply_rotary_pos_emb", "qwen3_vl.apply_rotary_pos_emb_vision"},
}
IN_SINGLE_MODELS["transformers_npu"] = {
    *("qwen3.Qwen3MLP.forward", "qwen3_vl.Qwen3VLTextMLP.forward"),
    *(name for names in IN_SINGLE_MODELS.values() for name in names),
}


@functools.lru_cache(maxsize=None)
def _copies_in_qwen3():
    """The copies in Qwen3 and Qwen3-VL, as far as this version has these, with the kind of each."""
    return {
        found.module.rpartition("modeling_")[2] + "." + found.qualname: (kind, found)
        for kind in KINDS
        for found in survey_forms.copies(KINDS[kind])
        if found.module.endswith(("modeling_qwen3", "modeling_qwen3_vl"))
    }


def _assert_same_in(kind, copy, patched, original):
    if kind == "RMSNorm":
        for module, inputs, x in _norm_calls(owner_of(copy), DTYPES[0]):
            assert_same(patched, original, inputs, module, x)
    elif kind == "RotaryEmbedding":
        inputs, arguments = _rotary_call(copy, original, DTYPES[0])
        assert_same(patched, original, inputs, **arguments)
    else:
        form = GATED_MLPS.forms[copy.fingerprint]
        module, arguments = form_inputs.gated_mlp(owner_of(copy), form, torch.float32)
        assert_same(patched, original, [arguments[0], *module.parameters()], module, *arguments)


@pytest.mark.parametrize("group", [*VIEWS, TransformersNPU], ids=lambda group: group.name)
def test_a_patch_for_single_models_computes_there_what_upstream_does(group):
    copies = _copies_in_qwen3()
    expected = IN_SINGLE_MODELS[group.name] & copies.keys()
    if not expected:
        pytest.skip(f"transformers {importlib.metadata.version('transformers')} has no such model")
    slots = {name: (owner_of(copy), copy.qualname.rpartition(".")[2]) for name, (_, copy) in copies.items()}
    originals = {name: owner.__dict__[one] for name, (owner, one) in slots.items()}
    with Patcher(backend="portable").add(group):
        patched = {name: owner.__dict__[one] for name, (owner, one) in slots.items()}
    assert {name for name in slots if patched[name] is not originals[name]} == expected
    for name in sorted(expected):
        _assert_same_in(*copies[name], patched[name], originals[name])
