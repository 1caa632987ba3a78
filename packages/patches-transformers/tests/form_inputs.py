"""Random inputs for every known form: what its functions and modules are called with upstream."""

from __future__ import annotations

import inspect

import torch
from torch import nn

HEAD, HEADS, POSITIONS, BATCH = 16, 3, 5, 2
WIDTH, INNER = 12, 20
SECTIONS = (2, 1, 1)  #: of a multimodal rotation, in parts of what half of the channels are


def bare(cls, **attributes):
    """An instance of an upstream module that has just what its ``forward`` reads."""
    module = cls.__new__(cls)
    nn.Module.__init__(module)
    for name, value in attributes.items():
        setattr(module, name, value)
    return module


# ------------------------------------------------------------------------------------------------- RMSNorm
def norms(cls, dtype, weight_dtype):
    """Modules of an RMSNorm class: with a weight, and without one where the class can be without."""
    for with_scale in (True, False):
        weight = nn.Parameter(torch.randn(WIDTH).to(weight_dtype))
        yield bare(cls, weight=weight, eps=1e-3, variance_epsilon=1e-3, with_scale=with_scale)


# ------------------------------------------------------------------------------------------------- rotary
def _tensor(*shape, dtype):
    return torch.randn(*shape).to(dtype).requires_grad_()


def _factors(form):
    """How many channels cos and sin have."""
    if "of_pairs" in form or form in ("one_trailing_interleaved", "one_interleaved_sin_first"):
        return HEAD // 2
    return HEAD // 2 if "partial" in form and form != "partial_interleaved_repeated" else HEAD


def rotary_arguments(form, function, dtype, factor_dtype):
    """Keyword arguments for a function of a rotary form: random angles, unlike those of any model."""
    channels = _factors(form)
    shape, factors = (BATCH, HEADS, POSITIONS, HEAD), (BATCH, POSITIONS, channels)
    if form.startswith("vision"):
        shape, factors = (POSITIONS, HEADS, HEAD), (POSITIONS, channels)
    elif form.startswith("multimodal"):
        factors = (len(SECTIONS), BATCH, POSITIONS, channels)
    elif form == "plane_interleaved":
        factors = (1, 1, POSITIONS, channels)
    elif form == "patches_half":
        factors = (POSITIONS - 2, channels)
    elif form == "one_half_truncated":
        factors = (1, 1, POSITIONS + 3, channels)
    elif form == "one_interleaved_sin_first":
        shape = (BATCH, POSITIONS, HEADS, HEAD)
    elif form == "one_half_from_frequencies":
        shape = (1, POSITIONS, HEADS, HEAD)
    elif "gathered" in form:
        factors = (POSITIONS + 3, channels)
    angles = torch.randn(*factors)
    made = {
        "position_ids": None,
        "freqs": torch.randn(POSITIONS, HEAD // 2),
        "mrope_section": [share * channels // 8 for share in SECTIONS],
    }
    if "gathered" in form:
        made["position_ids"] = torch.randint(0, POSITIONS + 3, (BATCH, POSITIONS))
    made["cos"], made["sin"] = (
        angles.cos().to(factor_dtype),
        (angles + torch.randn(factors)).sin().to(factor_dtype),
    )
    arguments = {}
    for name in inspect.signature(function).parameters:
        if name in ("q", "k", "v", "x", "tensor"):
            arguments[name] = _tensor(*shape, dtype=dtype)
        elif name in made:
            arguments[name] = made[name]
    return arguments


# ------------------------------------------------------------------------------------------------- gated MLP
class StepLinear(nn.Module):
    """A layer with weights per step, and one with weights per expert: takes a second argument."""

    def __init__(self, inner, outer):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, outer, inner) / inner**0.5)

    def forward(self, x, step=None):
        step = 0 if step is None else int(step)
        return x @ self.weight[step].T


def gated_mlp(cls, form, dtype, activation=None):
    """A module of a gated class with random weights, and the arguments to call it with."""
    activation = activation or nn.SiLU()
    layers = {
        **{name: nn.Linear(WIDTH, INNER) for name in ("gate_proj", "up_proj", "w1", "w3")},
        **{name: nn.Linear(INNER, WIDTH) for name in ("down_proj", "w2", "output_linear", "fc2")},
        **{name: nn.Linear(WIDTH, 2 * INNER) for name in ("gate_up_proj", "input_linear", "fc1")},
        "layer_norm": nn.LayerNorm(WIDTH),
        "ffn_sub_norm": nn.LayerNorm(INNER),
        "dropout": nn.Dropout(0.0),
        "suv_gate": nn.Parameter(torch.randn(INNER)),
        "suv_up": nn.Parameter(torch.randn(INNER)),
        "global_scale": nn.Parameter(torch.randn(1)),
        "gate_up_proj_adapter_list": nn.ModuleList([nn.Linear(WIDTH, 2 * INNER) for _ in range(2)]),
        **dict.fromkeys(("act_fn", "activation_fn", "activation"), activation),
    }
    facts = {
        "suv_scale": 0.7, "gate_multiplier": 1.3, "down_multiplier": 0.6, "limit": 0.4, "swiglu_limit": 0.3,
        "residual_dropout": 0.0, "layer_dic": {7: 1},
    }  # fmt: skip
    arguments = [torch.randn(BATCH, POSITIONS, WIDTH).to(dtype).requires_grad_()]
    if form in ("packed_by_layer", "packed_by_expert"):
        layers["fc1"], layers["fc2"] = StepLinear(WIDTH, 2 * INNER), StepLinear(INNER, WIDTH)
        arguments.append(torch.tensor(2) if form == "packed_by_expert" else 2)
    elif form == "packed_with_adapter":
        arguments.append(7)
    return bare(cls, **layers, **facts).to(dtype), arguments
