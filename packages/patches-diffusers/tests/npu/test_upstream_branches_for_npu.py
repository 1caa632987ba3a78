"""Where torch_npu is installed diffusers takes branches of its own: how they differ from CUDA, and that this ends."""

from __future__ import annotations

import importlib
from types import SimpleNamespace

import pytest

pytest.importorskip("patcher_testing.npu", reason="the simulated NPU is not installed")

import torch

import diffusers_patches
from patcher_core import Patcher

pytestmark = pytest.mark.simulated_npu


@pytest.fixture
def models(simulated_npu):
    """Modules of ``diffusers.models``, imported where torch_npu is to be found."""
    utilities = importlib.import_module("diffusers.utils")
    assert utilities.is_torch_npu_available()
    importlib.import_module("diffusers.models.attention_processor")
    return SimpleNamespace(
        activations=importlib.import_module("diffusers.models.activations"),
        normalization=importlib.import_module("diffusers.models.normalization"),
    )


@pytest.fixture
def patcher(simulated_npu):
    patcher = Patcher().add(diffusers_patches.DiffusersNPU).disable("transfer_to_npu")
    yield patcher
    patcher.restore()


def test_a_norm_without_weight_fails_unpatched_and_normalises_patched(models, patcher, simulated_npu):
    norm, x = models.normalization.RMSNorm(16, eps=1e-3, elementwise_affine=False), torch.randn(3, 16)
    with pytest.raises(RuntimeError, match="gamma"):
        norm(x.npu())
    patcher.apply()
    with simulated_npu.record_operators() as operators:
        found = norm(x.npu())
    operators.assert_ran("npu_rms_norm", times=1)
    wanted = x / (x.square().mean(-1, keepdim=True) + 1e-3).sqrt()
    torch.testing.assert_close(found.cpu(), wanted)


def test_half_precision_beside_a_float32_weight_gives_float32_as_on_cuda(models, patcher):
    norm, x = models.normalization.RMSNorm(16, eps=1e-3).npu(), torch.randn(3, 16).bfloat16().npu()
    assert norm(x).dtype == torch.bfloat16
    patcher.apply()
    assert norm(x).dtype == torch.float32


def test_geglu_computes_the_erf_form(models, patcher, simulated_npu):
    layer, x = models.activations.GEGLU(16, 16), torch.randn(30, 16) * 2
    value, gate = layer.proj(x).chunk(2, dim=-1)
    erf, tanh = (value * torch.nn.functional.gelu(gate, approximate=form) for form in ("none", "tanh"))
    assert (erf - tanh).abs().max() > 1e-5
    layer = layer.npu()
    torch.testing.assert_close(layer(x.npu()).cpu(), tanh)
    patcher.apply()
    with simulated_npu.record_operators() as operators:
        torch.testing.assert_close(layer(x.npu()).cpu(), erf, rtol=1e-5, atol=1e-6)
    operators.assert_ran("npu_geglu", times=1)


@pytest.mark.parametrize("layer", ["GEGLU", "RMSNorm"])
def test_tensors_on_the_cpu_are_computed_there(models, patcher, layer):
    made = models.activations.GEGLU(16, 16) if layer == "GEGLU" else models.normalization.RMSNorm(16, 1e-3)
    x = torch.randn(3, 16)
    with pytest.raises(NotImplementedError):
        made(x)
    patcher.apply()
    assert made(x).abs().max() > 0.1
