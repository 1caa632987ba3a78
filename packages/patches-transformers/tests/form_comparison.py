"""Upstream's functions beside the replacements of them: the first copy of every known form in the installed version."""

from __future__ import annotations

import functools
import importlib

import pytest
import survey_forms
import torch

from patcher_core import Patcher
from transformers_patches import GatedMLP, RMSNorm, RotaryEmbedding
from transformers_patches.gated_mlp import GATED_MLPS
from transformers_patches.rms_norm import RMS_NORMS
from transformers_patches.rotary_embedding import ROTARY_EMBEDDINGS

KINDS = {"RMSNorm": RMS_NORMS, "RotaryEmbedding": ROTARY_EMBEDDINGS, "GatedMLP": GATED_MLPS}
GROUPS = {"RMSNorm": RMSNorm, "RotaryEmbedding": RotaryEmbedding, "GatedMLP": GatedMLP}
DTYPES = [
    (torch.float32, torch.float32),
    (torch.bfloat16, torch.bfloat16),
    (torch.bfloat16, torch.float32),
    (torch.float16, torch.float16),
]


@functools.lru_cache(maxsize=None)
def one_of_each(kind):
    """The first copy of every known form in the installed version."""
    groups = survey_forms.copies_by_fingerprint(KINDS[kind])
    return [
        pytest.param(group[0], id=f"{KINDS[kind].forms[one]}-{group[0].module.rpartition('.')[2]}")
        for one, group in groups.items()
        if one in KINDS[kind].forms
    ]


@functools.lru_cache(maxsize=None)
def _originals_and_replacements(kind, backend):
    """Upstream's function and the one that is in its place while the patches are applied, by copy."""
    copies = [case.values[0] for case in one_of_each(kind)]
    slots = {copy: (owner_of(copy), copy.qualname.rpartition(".")[2]) for copy in copies}
    originals = {copy: owner.__dict__[name] for copy, (owner, name) in slots.items()}
    with Patcher(backend=backend).add(GROUPS[kind]) as patcher:
        replacements = {copy: owner.__dict__[name] for copy, (owner, name) in slots.items()}
        statuses = {result.name: result.status.value for result in patcher.report}
    for copy, (owner, name) in slots.items():
        assert statuses[f"{copy.module}.{copy.qualname}"] == "applied"
        assert owner.__dict__[name] is originals[copy] and replacements[copy] is not originals[copy]
    return originals, replacements


def owner_of(copy):
    owner = importlib.import_module(copy.module)
    for name in copy.qualname.split(".")[:-1]:
        owner = getattr(owner, name)
    return owner


def both(kind, copy, backend="portable"):
    """The owner, upstream's function and the one that the patch puts in its place."""
    originals, replacements = _originals_and_replacements(kind, backend)
    return owner_of(copy), originals[copy], replacements[copy]


def _values_and_gradients(function, inputs, *args, **kwargs):
    """All tensors that a call gives back, and the gradients of a random weighting of them."""
    result = function(*args, **kwargs)
    result = result if isinstance(result, tuple) else (result,)
    torch.manual_seed(1)
    total = sum((one.float() * torch.randn(one.shape).to(one.device)).sum() for one in result)
    return [*result, *torch.autograd.grad(total, inputs, allow_unused=True)], len(result)


def assert_same(ours, theirs, inputs, *args, exact=True, **kwargs):
    """Values equal to the bit where ``exact``, gradients up to the order in which they are summed; dtypes equal."""
    (found, count), (expected, _) = (
        _values_and_gradients(f, inputs, *args, **kwargs) for f in (ours, theirs)
    )
    assert len(found) == len(expected)
    for index, (one, other) in enumerate(zip(found, expected)):
        assert (one is None) == (other is None)
        if one is None:
            continue
        assert one.dtype is other.dtype and one.shape == other.shape
        rounding = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}[one.dtype]
        tolerance = 0.0 if exact and index < count else rounding
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)
