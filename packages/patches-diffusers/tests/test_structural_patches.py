"""RMSNorm, GELU, GEGLU and rotary embedding of the installed diffusers: values, dtypes and gradients are upstream's."""

from __future__ import annotations

import functools
import importlib

import pytest
import torch
from copies import copies
from upstream_calls import variants_of

import diffusers_patches
from patcher_core import Patcher
from patcher_testing.numerics import CASES, TOLERANCES, assert_faults_are_caught, assert_same_numerics

GROUPS = {
    group.__name__: group
    for group in (
        diffusers_patches.RMSNorm,
        diffusers_patches.GEGLU,
        diffusers_patches.GELU,
        diffusers_patches.RotaryEmbedding,
    )
}


def _patch(group):
    (patch,) = group.patches({"backend": "portable"})
    return patch


@functools.lru_cache(maxsize=None)
def _known(name):
    """The first copy of every form of a group in the installed version."""
    patch = _patch(GROUPS[name])
    first = {}
    for copy in copies(patch):
        if copy.fingerprint in patch.forms:
            first.setdefault(copy.fingerprint, copy)
    return list(first.values())


def _every_call():
    for name in GROUPS:
        for copy in _known(name):
            for variant, (call, inputs) in variants_of(copy).items():
                yield pytest.param(name, copy, variant, call, inputs, id=f"{copy.qualname}-{variant}")


CALLS = list(_every_call())


def _replaced(name, copy):
    """Upstream's function, and the one that stands in its place while the group is applied."""
    original = copy.function
    with Patcher(backend="portable").add(GROUPS[name]):
        replacement = copy.function
    assert copy.function is original and replacement is not original
    return original, replacement


@pytest.mark.parametrize("name", GROUPS)
def test_every_copy_in_the_installed_version_is_known_or_left_alone_for_a_reason(name):
    patch = _patch(GROUPS[name])
    unknown = [one for one in copies(patch) if one.fingerprint not in {**patch.forms, **patch.left_alone}]
    assert unknown == []
    assert all(patch.left_alone.values()) and not patch.forms.keys() & patch.left_alone.keys()


@pytest.mark.parametrize(("name", "copy", "variant", "call", "inputs"), CALLS)
def test_the_replacement_computes_what_upstream_computes(name, copy, variant, call, inputs):
    original, replacement = _replaced(name, copy)
    dtypes = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
    options = {}
    if name == "RotaryEmbedding":
        # upstream rotates in float32, whatever the input is, and cannot reshape an empty batch
        options["tolerances"] = {torch.float64: TOLERANCES[torch.float32]}
        options["cases"] = [case for case in CASES if case.batch]
    if variant == "complex":
        # it cannot view every second channel as complex numbers either
        options["cases"] = [case for case in CASES if case.batch and case.is_contiguous]
    assert_same_numerics(call(replacement), call(original), inputs, dtypes=dtypes, **options)


@pytest.mark.parametrize(("name", "copy", "variant", "call", "inputs"), CALLS)
def test_a_wrong_replacement_would_be_noticed(name, copy, variant, call, inputs):
    assert_faults_are_caught(call(copy.function), inputs)


def test_a_norm_that_may_compute_in_its_own_dtype_is_left_to_upstream_then():
    pytest.importorskip(
        "diffusers.models.transformers.transformer_stable_audio3", reason="diffusers before 0.40 has none"
    )
    from diffusers.models.transformers.transformer_stable_audio3 import StableAudio3RMSNorm

    norm = StableAudio3RMSNorm(16, eps=1e-3, force_fp32=False).to(torch.bfloat16)
    x = torch.randn(3, 16).to(torch.bfloat16)
    wanted = norm(x)
    with Patcher(backend="portable").add(diffusers_patches.RMSNorm):
        assert torch.equal(norm(x), wanted)


@pytest.mark.parametrize("group", [diffusers_patches.RMSNorm, diffusers_patches.DiffusersNPU])
def test_upstreams_own_classes_are_patched_and_come_back(group):
    from diffusers.models import normalization

    norm = normalization.RMSNorm(16, eps=1e-3, elementwise_affine=False)
    original = normalization.RMSNorm.__dict__["forward"]
    x = torch.randn(3, 16)
    wanted = norm(x)
    patcher = Patcher(backend="portable").add(group).apply()
    assert torch.equal(norm(x), wanted)
    assert normalization.RMSNorm.forward is not original
    patcher.restore()
    assert normalization.RMSNorm.forward is original


def test_geglu_with_the_argument_that_upstream_ignores_warns_as_upstream_does():
    activations = importlib.import_module("diffusers.models.activations")
    layer, x = activations.GEGLU(8, 8), torch.randn(3, 8)
    with Patcher(backend="portable").add(diffusers_patches.GEGLU):
        plain = layer(x)
        with pytest.warns(FutureWarning, match="scale"):
            assert torch.equal(layer(x, scale=0.5), plain)


@pytest.mark.parametrize("wrong", [{"use_real_unbind_dim": 0}, {"sequence_dim": 3}])
def test_an_argument_out_of_range_raises_what_upstream_raises(wrong):
    embeddings = importlib.import_module("diffusers.models.embeddings")
    rotate = getattr(embeddings, "apply_rotary_emb", None)
    if rotate is None or not wrong.keys() <= set(rotate.__code__.co_varnames):
        pytest.skip("this version has no such argument")
    arguments = (torch.randn(2, 3, 5, 8), (torch.randn(5, 8), torch.randn(5, 8)))
    with pytest.raises(ValueError, match=next(iter(wrong))):
        rotate(*arguments, **wrong)
    with Patcher(backend="portable").add(diffusers_patches.RotaryEmbedding):  # noqa: SIM117
        with pytest.raises(ValueError, match=next(iter(wrong))):
            embeddings.apply_rotary_emb(*arguments, **wrong)


def test_a_copy_that_a_model_imported_by_name_follows():
    module = pytest.importorskip(
        "diffusers.models.transformers.transformer_lumina2", reason="diffusers before 0.33 has none"
    )
    embeddings = importlib.import_module("diffusers.models.embeddings")
    original = module.apply_rotary_emb
    with Patcher(backend="portable").add(diffusers_patches.RotaryEmbedding):
        assert module.apply_rotary_emb is embeddings.apply_rotary_emb is not original
    assert module.apply_rotary_emb is embeddings.apply_rotary_emb is original


def test_patched_layers_compile_as_one_graph():
    from diffusers.models.activations import GEGLU, GELU
    from diffusers.models.normalization import RMSNorm

    model = torch.nn.Sequential(RMSNorm(8, eps=1e-3), GEGLU(8, 8), GELU(8, 8, approximate="tanh"))
    x = torch.randn(3, 8)
    wanted = model(x)
    with Patcher(backend="portable").add(*diffusers_patches.ALL):
        torch.testing.assert_close(torch.compile(model, backend="eager", fullgraph=True)(x), wanted)
