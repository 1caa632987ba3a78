"""What upstream's functions are called with: for each qualified name, variants of a call of tensors alone.

A variant is a pair: ``call(function)`` gives a function of tensors, ``inputs(draw)`` draws them.
"""

from __future__ import annotations

from types import SimpleNamespace

import torch
from torch.nn import functional

EPSILON = 1e-3


# ------------------------------------------------------------------------------------------------- RMSNorm
def _norm(weight_dtype="own", bias=False, **facts):
    """``weight_dtype``: that of the input (``own``), another one, or None for no weight."""

    def call(function):
        def norm(x, weight=None, bias=None):
            instance = SimpleNamespace(weight=weight, gamma=weight, bias=bias, eps=EPSILON, **facts)
            return function(instance, x)

        return norm

    def inputs(draw):
        width = draw.size(multiple_of=4) + 1
        x = draw.tensor(draw.batch(), 5, width, scale=2.0)
        if weight_dtype is None:
            return (x,)
        dtype = draw.dtype if weight_dtype == "own" else weight_dtype
        weight = draw.uniform(0.5, 1.5, width, dtype=dtype)
        return (x, weight, draw.tensor(width, dtype=dtype)) if bias else (x, weight)

    return call, inputs


_NORMS = {
    "weight of the same dtype": _norm(),
    "float32 weight": _norm(torch.float32),
    "bfloat16 weight": _norm(torch.bfloat16),
}
_NORMS_OR_NO_WEIGHT = {**_NORMS, "no weight": _norm(None)}
_NORMS_WITH_BIAS = {
    **_NORMS_OR_NO_WEIGHT,
    "bias": _norm(bias=True),
    "float32 bias": _norm(torch.float32, bias=True),
}


# ------------------------------------------------------------------------------------------------- GELU
def _activation(out_of_in, **facts):
    """A module that projects its input to ``out_of_in`` times the width, then calls its activation."""

    def call(function):
        def activate(x, weight):
            instance = SimpleNamespace(proj=lambda x: functional.linear(x, weight), **facts)
            instance.gelu = lambda gate: functional.gelu(gate, approximate=facts.get("approximate", "none"))
            return function(instance, x)

        return activate

    def inputs(draw):
        width = draw.size(multiple_of=4)
        return draw.tensor(draw.batch(), 5, width), draw.tensor(width * out_of_in, width)

    return call, inputs


def _bare_activation():
    return (lambda function: lambda x: function(None, x)), (lambda draw: (draw.tensor(draw.batch(), 5, 8),))


# ------------------------------------------------------------------------------------------------- rotary
def _factors(draw, *shape):
    """cos and sin (..., D) of unrelated angles for each channel, in float32."""
    return draw.uniform(-1, 1, *shape, dtype=torch.float32), draw.uniform(-1, 1, *shape, dtype=torch.float32)


def _rotation(*factor_shape, shape=("B", 3, 5), **options):
    """``shape``: of the input without its channels; ``factor_shape``: of cos and sin without theirs."""

    def call(function):
        return lambda x, cos, sin: function(x, (cos, sin), **options)

    def inputs(draw):
        sizes = {"B": draw.batch()}
        channels = draw.size(multiple_of=2)
        x = draw.tensor(*(sizes.get(size, size) for size in shape), channels)
        return (x, *_factors(draw, *(sizes.get(size, size) for size in factor_shape), channels))

    return call, inputs


def _complex_rotation(*factor_shape):
    """The input is (B, 5, 3, D): sequence before heads."""

    def call(function):
        return lambda x, real, imaginary: function(x, torch.complex(real, imaginary), use_real=False)

    def inputs(draw):
        batch, pairs = draw.batch(), draw.size()
        sizes = (batch if size == "B" else size for size in factor_shape)
        return (draw.tensor(batch, 5, 3, 2 * pairs), *_factors(draw, *sizes, pairs))

    return call, inputs


_PAIRS = {
    "neighbours": _rotation(5),
    "halves": _rotation(5, use_real_unbind_dim=-2),
    "complex": _complex_rotation("B", 5),
}
_QWEN = {**_PAIRS, "complex": _complex_rotation(5)}
_SEQUENCE_FIRST = {
    "sequence before heads": _rotation(5, shape=("B", 5, 3), sequence_dim=1),
    "sequence before heads, halves": _rotation(5, shape=("B", 5, 3), sequence_dim=1, use_real_unbind_dim=-2),
}

VARIANTS = {
    "RMSNorm.forward": _NORMS_OR_NO_WEIGHT,
    "MochiRMSNorm.forward": _NORMS_OR_NO_WEIGHT,
    "Cosmos3NemotronRMSNorm.forward": _NORMS,
    "QwenImage21ZeroCenterRMSNorm.forward": _NORMS,
    "StableAudio3RMSNorm.forward": {
        "weight of the same dtype": _norm(force_fp32=True),
        "float32 weight": _norm(torch.float32, force_fp32=True),
    },
    "GEGLU.forward": {"erf": _activation(2)},
    "GELU.forward": {
        "erf": _activation(1, approximate="none"),
        "tanh": _activation(1, approximate="tanh"),
    },
    "ApproximateGELU.forward": {"sigmoid": _activation(1)},
    "QuickGELU.forward": {"sigmoid": _bare_activation()},
    "apply_rotary_emb_qwen": _QWEN,
}

#: what differs between versions of one name, by fingerprint
VARIANTS_BY_FINGERPRINT = {
    "753c052d5d177378": {"neighbours": _PAIRS["neighbours"]},
    "caec365bb82d4070": _PAIRS,
    "c2c66b67b26b715a": {**_PAIRS, **_SEQUENCE_FIRST},
    "3c22acdfe3110ae7": {"neighbours": _rotation("B", 5, shape=("B", 5))},
    "13f2245d80f49f92": _NORMS_WITH_BIAS,
    "0adf52771947118e": _NORMS_WITH_BIAS,
    "42caf02dd772b202": _NORMS_WITH_BIAS,
}


def variants_of(copy):
    """The variants of a :class:`copies.Copy`."""
    return VARIANTS_BY_FINGERPRINT.get(copy.fingerprint) or VARIANTS[copy.qualname]
