"""Would the comparison notice a wrong replacement? Asked by planting faults in the original."""

from __future__ import annotations

from typing import Any, Callable, Mapping

import torch
from torch.utils._pytree import tree_map

from .comparison import Inputs, Mismatch, assert_same_numerics

Fault = Callable[[Callable[..., Any]], Callable[..., Any]]


def _on_results(change: Callable[[torch.Tensor], torch.Tensor]) -> Fault:
    """A fault that changes every floating tensor that the original gives back."""

    def change_floating(value: Any) -> Any:
        return change(value) if isinstance(value, torch.Tensor) and value.is_floating_point() else value

    def plant(original: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **kwargs: tree_map(change_floating, original(*args, **kwargs))

    return plant


def _without_gradient_scale(result: torch.Tensor) -> torch.Tensor:
    """The same values, with gradients 1.5 times too large."""
    return result * 1.5 - result.detach() * 0.5


#: Faults in the values, by name.
VALUE_FAULTS: Mapping[str, Fault] = {
    "results scaled by 1.1": _on_results(lambda result: result * 1.1),
    "results shifted by a tenth of their mean size": _on_results(
        lambda result: result + (result.detach().abs().mean() * 0.1 if result.numel() else 0)
    ),
    "results in another dtype": _on_results(
        lambda result: result.to(torch.float64 if result.dtype == torch.float32 else torch.float32)
    ),
    "results with one dimension more": _on_results(lambda result: result.unsqueeze(0)),
}

#: Faults that only the backward pass shows.
GRADIENT_FAULTS: Mapping[str, Fault] = {
    "results without gradient": _on_results(torch.Tensor.detach),
    "gradients scaled by 1.5": _on_results(_without_gradient_scale),
}


def assert_faults_are_caught(original: Callable[..., Any], inputs: Inputs, **options: Any) -> None:
    """Fail if `assert_same_numerics` with these inputs would let a wrong replacement of `original` pass.

    Takes the arguments of `assert_same_numerics`, of which it is the proof that it can fail: faults are planted one by
    one in the original itself, and each must be found.

    Raises:
        AssertionError: naming the faults that were not found.
    """
    faults = {**VALUE_FAULTS, **(GRADIENT_FAULTS if options.get("gradients", True) else {})}
    missed = []
    for name, plant in faults.items():
        try:
            assert_same_numerics(plant(original), original, inputs, **{**options, "device": "cpu"})
        except Mismatch:
            continue
        missed.append(name)
    if missed:
        raise AssertionError(
            f"these inputs do not show a wrong replacement: {'; '.join(missed)} passed unnoticed"
        )
