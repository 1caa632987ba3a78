"""The portable operators against formulas in float64, and the proof that these inputs would show a wrong one."""

from __future__ import annotations

import importlib.util

import pytest

torch = pytest.importorskip("torch")

if importlib.util.find_spec("patcher_testing") is None:
    pytest.skip("patcher-testing is not installed in this environment", allow_module_level=True)

from patcher_testing.numerics import assert_faults_are_caught, assert_same_numerics  # noqa: E402
from transformers_patches.attention_operators import PORTABLE, Pattern  # noqa: E402
from transformers_patches.gated_mlp_forms import portable_swiglu  # noqa: E402
from transformers_patches.image_processor_functions import permute_in_parts  # noqa: E402
from transformers_patches.rms_norm_forms import portable_rms_norm  # noqa: E402
from transformers_patches.rotary_forms import portable_rotary_mul  # noqa: E402

ORDER = (0, 1, 4, 7, 5, 8, 3, 2, 6, 9)
CAUSAL = Pattern(causal=True, window=(3, -1))


def _norm(x, weight):
    wide = x.double()
    root = (wide.square().mean(-1, keepdim=True) + 1e-3).sqrt()
    return (wide / root * weight.double()).to(x.dtype)


def _turned(x, cos, sin, interleaved):
    """Pairs of channels as complex numbers, turned by one angle a pair."""
    a, b = (x[..., ::2], x[..., 1::2]) if interleaved else x.chunk(2, dim=-1)
    angle = torch.complex(
        *((one[..., ::2] if interleaved else one.chunk(2, -1)[0]).double() for one in (cos, sin))
    )
    turned = torch.complex(a.double(), b.double()) * angle
    parts = (turned.real, turned.imag)
    joined = torch.stack(parts, dim=-1).flatten(-2) if interleaved else torch.cat(parts, dim=-1)
    return joined.to(x.dtype)


def _attention(query, key, value):
    key, value = (one.repeat_interleave(2, dim=1).double() for one in (key, value))
    scores = query.double() @ key.transpose(-1, -2) * 0.3
    distance = torch.arange(scores.shape[-1]) - (torch.arange(scores.shape[-2])[:, None] + 2)
    allowed = (distance <= 0) & (distance >= -3)
    return (scores.masked_fill(~allowed, float("-inf")).softmax(-1) @ value).to(query.dtype)


def _norm_inputs(draw):
    width = draw.size(multiple_of=8)
    return draw.tensor(draw.batch(), 5, width), draw.uniform(0.5, 1.5, width)


def _rotary_inputs(interleaved):
    def inputs(draw):
        batch = draw.batch()
        angles = draw.tensor(batch, 1, 5, 4, dtype=torch.float32, grad=False)
        angles = angles.repeat_interleave(2, dim=-1) if interleaved else torch.cat((angles, angles), dim=-1)
        return (
            draw.tensor(batch, 3, 5, 8),
            angles.cos().to(draw.dtype),
            angles.sin().to(draw.dtype),
            interleaved,
        )

    return inputs


def _gate_inputs(draw):
    shape = (draw.batch(), 5, draw.size())
    return draw.tensor(*shape), draw.tensor(*shape)


def _attention_inputs(draw):
    batch = draw.batch()
    return draw.tensor(batch, 4, 5, 8), draw.tensor(batch, 2, 7, 8), draw.tensor(batch, 2, 7, 8)


def _patches(draw):
    return (draw.tensor(draw.batch(), 2, 2, 3, 2, 2, 2, 2, 2, 2),)


OPERATORS = {
    "rms_norm": (lambda x, weight: portable_rms_norm(x, weight, 1e-3), _norm, _norm_inputs),
    "rotary_mul half": (portable_rotary_mul, _turned, _rotary_inputs(False)),
    "rotary_mul interleaved": (portable_rotary_mul, _turned, _rotary_inputs(True)),
    "swiglu": (portable_swiglu, lambda gate, up: gate * torch.sigmoid(gate) * up, _gate_inputs),
    "attention": (
        lambda q, k, v: PORTABLE.attention(q, k, v, None, CAUSAL, 0.3, 0.0),
        _attention,
        _attention_inputs,
    ),
    "permutation": (lambda x: permute_in_parts(x, ORDER), lambda x: x.permute(ORDER), _patches),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_is_what_its_formula_says(name):
    operator, formula, inputs = OPERATORS[name]
    assert_same_numerics(operator, formula, inputs)


@pytest.mark.parametrize("name", OPERATORS)
def test_a_wrong_operator_would_be_seen(name):
    _, formula, inputs = OPERATORS[name]
    assert_faults_are_caught(formula, inputs)
