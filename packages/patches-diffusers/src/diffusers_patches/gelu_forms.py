"""The known forms of GELU and GEGLU (Shazeer, 2020, https://arxiv.org/abs/2002.05202) in diffusers."""

from __future__ import annotations

from typing import Any, Callable

from torch import Tensor


def geglu(operators: Any) -> Callable[..., Tensor]:
    def forward(self: Any, hidden_states: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return operators.geglu(self.proj(hidden_states))

    return forward


def gelu(operators: Any) -> Callable[..., Tensor]:
    def forward(self: Any, hidden_states: Tensor) -> Tensor:
        return operators.gelu(self.proj(hidden_states), self.approximate)

    return forward


def sigmoid_gelu(operators: Any) -> Callable[..., Tensor]:
    def forward(self: Any, x: Tensor) -> Tensor:
        return operators.sigmoid_gelu(self.proj(x))

    return forward


def sigmoid_gelu_without_layer(operators: Any) -> Callable[..., Tensor]:
    def forward(self: Any, input: Tensor) -> Tensor:
        return operators.sigmoid_gelu(input)

    return forward
