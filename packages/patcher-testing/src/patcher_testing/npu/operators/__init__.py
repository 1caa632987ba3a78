"""References for the operators of torch_npu: plain PyTorch on CPU tensors, computed in float32 and rounded
once.

Each module offers `REFERENCES`, full operator name to function. The functions take the arguments of the real
schema, with the names and the defaults that the dispatcher fills in.
"""

from __future__ import annotations

from typing import Any, Callable

from . import activation, attention, autograd_formulas, layout, normalization, rotary

REFERENCES: dict[str, Callable[..., Any]] = {
    **activation.REFERENCES,
    **attention.REFERENCES,
    **autograd_formulas.REFERENCES,
    **layout.REFERENCES,
    **normalization.REFERENCES,
    **rotary.REFERENCES,
}
