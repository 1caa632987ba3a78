"""The known forms of the gated feed-forward layer SwiGLU (Shazeer, 2020, https://arxiv.org/abs/2002.05202).

All compute ``down(silu(gate) * up)``. They differ in the names of the layers, in whether gate and up are one layer
(packed), and in what is done to gate, up, product and result besides.
"""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch import Tensor
from torch.nn import functional

#: ``swiglu(gate, up)``, or ``swiglu(packed)`` where both halves lie in one tensor, the gate first.
Swiglu = Callable[..., Tensor]
Forward = Callable[..., Tensor]


def portable_swiglu(gate: Tensor, up: Tensor | None = None) -> Tensor:
    """``silu(gate) * up`` (..., N); without ``up``, ``gate`` (..., 2N) holds both."""
    if up is None:
        gate, up = gate.chunk(2, dim=-1)
    return functional.silu(gate) * up


_NPU_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def npu_swiglu(gate: Tensor, up: Tensor | None = None) -> Tensor:
    """The same with ``torch_npu.npu_swiglu``, in float32 and rounded once.

    What is not on an NPU, or in another dtype, is computed by :func:`portable_swiglu`.
    """
    is_one_dtype = up is None or up.dtype == gate.dtype
    if gate.device.type != "npu" or gate.dtype not in _NPU_DTYPES or not is_one_dtype:
        return portable_swiglu(gate, up)
    import torch_npu

    return torch_npu.npu_swiglu(gate if up is None else torch.cat((gate, up), dim=-1), dim=-1)


OPERATORS = {"portable": portable_swiglu, "npu": npu_swiglu}


# ---------------------------------------------------------------------- gate and up are two layers
def gate_up(swiglu: Swiglu) -> Forward:
    def forward(self: Any, x: Tensor) -> Tensor:
        return self.down_proj(swiglu(self.gate_proj(x), self.up_proj(x)))

    return forward


def gate_up_hidden_state(swiglu: Swiglu) -> Forward:
    def forward(self: Any, hidden_state: Tensor) -> Tensor:
        return self.down_proj(swiglu(self.gate_proj(hidden_state), self.up_proj(hidden_state)))

    return forward


def w1_w3(swiglu: Swiglu) -> Forward:
    def forward(self: Any, x: Tensor) -> Tensor:
        return self.w2(swiglu(self.w1(x), self.w3(x)))

    return forward


def w1_w3_hidden_states(swiglu: Swiglu) -> Forward:
    def forward(self: Any, hidden_states: Tensor) -> Tensor:
        return self.w2(swiglu(self.w1(hidden_states), self.w3(hidden_states)))

    return forward


def gate_up_dropout(swiglu: Swiglu) -> Forward:
    def forward(self: Any, x: Tensor) -> Tensor:
        return self.down_proj(self.dropout(swiglu(self.gate_proj(x), self.up_proj(x))))

    return forward


def gate_up_down_dropout(swiglu: Swiglu) -> Forward:
    def forward(self: Any, x: Tensor) -> Tensor:
        result = self.down_proj(swiglu(self.gate_proj(x), self.up_proj(x)))
        return functional.dropout(result, p=self.residual_dropout, training=self.training)

    return forward


def gate_up_normalised(swiglu: Swiglu) -> Forward:
    def forward(self: Any, x: Tensor) -> Tensor:
        return self.down_proj(self.ffn_sub_norm(swiglu(self.gate_proj(x), self.up_proj(x))))

    return forward


def scaled_gate_up_normalised(swiglu: Swiglu) -> Forward:
    def forward(self: Any, hidden_states: Tensor) -> Tensor:
        gate = self.gate_proj(hidden_states) * (self.suv_gate * self.suv_scale)
        up = self.up_proj(hidden_states) * (self.suv_up * self.suv_scale)
        return self.down_proj(self.ffn_sub_norm(swiglu(gate, up)))

    return forward


def gate_up_multiplied(swiglu: Swiglu) -> Forward:
    def forward(self: Any, x: Tensor) -> Tensor:
        product = swiglu(self.gate_proj(x) * self.gate_multiplier, self.up_proj(x))
        return self.down_proj(product) * self.down_multiplier

    return forward


def gate_up_scaled(swiglu: Swiglu) -> Forward:
    def forward(self: Any, hidden_states: Tensor) -> Tensor:
        product = swiglu(self.gate_proj(hidden_states), self.up_proj(hidden_states))
        return self.down_proj(product) * self.global_scale

    return forward


def gate_up_in_float32(swiglu: Swiglu) -> Forward:
    def forward(self: Any, x: Tensor) -> Tensor:
        gate = self.gate_proj(x)
        return self.down_proj(swiglu(gate.float(), self.up_proj(x).float()).to(gate.dtype))

    return forward


def clamped_by_limit(swiglu: Swiglu) -> Forward:
    def forward(self: Any, x: Tensor) -> Tensor:
        return _clamped(self, x, self.limit, swiglu)

    return forward


def clamped_by_swiglu_limit(swiglu: Swiglu) -> Forward:
    def forward(self: Any, x: Tensor) -> Tensor:
        return _clamped(self, x, self.swiglu_limit, swiglu)

    return forward


def clamped_by_swiglu_limit_hidden_state(swiglu: Swiglu) -> Forward:
    def forward(self: Any, hidden_state: Tensor) -> Tensor:
        return _clamped(self, hidden_state, self.swiglu_limit, swiglu)

    return forward


def _clamped(module: Any, x: Tensor, limit: float, swiglu: Swiglu) -> Tensor:
    gate = module.gate_proj(x).clamp(max=limit)
    up = module.up_proj(x).clamp(min=-limit, max=limit)
    return module.down_proj(swiglu(gate, up))


# ---------------------------------------------------------------------- gate and up are one layer
def packed_gate_up(swiglu: Swiglu) -> Forward:
    def forward(self: Any, hidden_states: Tensor) -> Tensor:
        return self.down_proj(swiglu(self.gate_up_proj(hidden_states)))

    return forward


def packed_input_linear(swiglu: Swiglu) -> Forward:
    def forward(self: Any, hidden_states: Tensor) -> Tensor:
        return self.output_linear(swiglu(self.input_linear(hidden_states)))

    return forward


def packed_by_layer(swiglu: Swiglu) -> Forward:
    """Each of the layers may have weights per step, of which ``layer_idx`` picks one."""

    def forward(self: Any, hidden_states: Tensor, layer_idx: int | None = None) -> Tensor:
        chosen = () if layer_idx is None else (layer_idx,)
        return self.fc2(swiglu(self.fc1(hidden_states, *chosen)), *chosen)

    return forward


def packed_up_gate(swiglu: Swiglu) -> Forward:
    def forward(self: Any, hidden_states: Tensor) -> Tensor:
        up, gate = self.fc1(hidden_states).chunk(2, dim=-1)
        return self.fc2(swiglu(gate, up))

    return forward


def normalised_packed_up_gate(swiglu: Swiglu) -> Forward:
    def forward(self: Any, hidden_states: Tensor) -> Tensor:
        up, gate = self.gate_up_proj(self.layer_norm(hidden_states)).chunk(2, dim=-1)
        return self.dropout(self.down_proj(self.dropout(swiglu(gate, up))))

    return forward


def packed_by_expert(swiglu: Swiglu) -> Forward:
    def forward(self: Any, permuted_tokens: Tensor, tokens_per_expert: Tensor) -> Tensor:
        product = swiglu(self.fc1(permuted_tokens, tokens_per_expert))
        return self.fc2(product, tokens_per_expert)

    return forward


def packed_with_adapter(swiglu: Swiglu) -> Forward:
    def forward(self: Any, hidden_state: Tensor, layer_idx: int | None = None) -> Tensor:
        adapter = self.gate_up_proj_adapter_list[self.layer_dic[layer_idx]]
        return self.down_proj(swiglu(self.gate_up_proj(hidden_state) + adapter(hidden_state)))

    return forward


IMPLEMENTATIONS = {
    form.__name__: form
    for form in (
        gate_up,
        gate_up_hidden_state,
        w1_w3,
        w1_w3_hidden_states,
        gate_up_dropout,
        gate_up_down_dropout,
        gate_up_normalised,
        scaled_gate_up_normalised,
        gate_up_multiplied,
        gate_up_scaled,
        gate_up_in_float32,
        clamped_by_limit,
        clamped_by_swiglu_limit,
        clamped_by_swiglu_limit_hidden_state,
        packed_gate_up,
        packed_input_linear,
        packed_by_layer,
        packed_up_gate,
        normalised_packed_up_gate,
        packed_by_expert,
        packed_with_adapter,
    )
}
IMPLEMENTATIONS["gate_up_activation_fn"] = (
    gate_up  # the activation has another name, which only the check needs
)
