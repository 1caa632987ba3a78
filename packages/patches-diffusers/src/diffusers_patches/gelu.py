"""GELU and GEGLU in every model of diffusers that has one of the known forms of them."""

from __future__ import annotations

from typing import Any, Mapping

from patcher_core import Patch

from .structural import structural_patch


def _has_no_scale(self: Any, hidden_states: Any, *args: Any, **kwargs: Any) -> bool:
    """Upstream warns of the ``scale`` that it ignores."""
    return not args and kwargs.get("scale") is None


def _is_not_on_mps(self: Any, hidden_states: Any, *args: Any, **kwargs: Any) -> bool:
    """Up to 0.31 upstream computes in float32 there."""
    return hidden_states.device.type != "mps" and _has_no_scale(self, hidden_states, *args, **kwargs)


class GEGLU(Patch):
    """``GEGLU.forward``: ``npu_geglu`` in the erf form on an NPU, as on CUDA.

    Upstream's own NPU branch takes the tanh form, and sends tensors on the CPU to the NPU operator.
    """

    name = "diffusers_geglu"
    library = "diffusers"
    backends = ("npu", "portable")
    why = "upstream computes another function on an NPU than elsewhere, up to 5e-4 apart"
    upstream = "diffusers/models/activations.py, GEGLU, diffusers 0.27.2 to 0.42.1"
    until = "diffusers calls npu_geglu with approximate=0"

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        builders = {
            "2850682d09df48af": "gelu_forms.geglu",  # 0.27
            "dca53180df4837fe": "gelu_forms.geglu",  # 0.28 to 0.31
            "714567075c916493": "gelu_forms.geglu",  # from 0.32 on
        }
        checks = {"gelu_forms.geglu": _is_not_on_mps}
        return [structural_patch("*GEGLU.forward", builders, options, checks=checks)]


class GELU(Patch):
    """``*GELU.forward`` of every known form: ``npu_gelu`` or ``npu_fast_gelu`` on an NPU."""

    name = "diffusers_gelu"
    library = "diffusers"
    backends = ("npu", "portable")
    why = "the sigmoid form is three operators, each of which reads and writes the whole tensor"
    upstream = "*GELU in diffusers/models, diffusers 0.27.2 to 0.42.1"
    until = "diffusers calls a fused operator on the device"

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        builders = {
            "d81ab8c5569dc5ae": "gelu_forms.gelu",  # GELU, up to 0.31
            "843b998de6319a95": "gelu_forms.gelu",  # GELU, from 0.32 on
            "1d66748ea3c91304": "gelu_forms.sigmoid_gelu",  # ApproximateGELU
            "31e712775c82fb1b": "gelu_forms.sigmoid_gelu_without_layer",  # QuickGELU
        }
        checks = {"gelu_forms.gelu": _is_not_on_mps}
        return [structural_patch("*GELU.forward", builders, options, checks=checks)]
