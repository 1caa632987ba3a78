"""RMSNorm in every model of diffusers that has one of the known forms of it."""

from __future__ import annotations

from typing import Any, Mapping

from patcher_core import Patch

from .structural import structural_patch

_BUILDERS = {
    "b97458398fdb6772": "rms_norm_forms.in_dtype_of_weight",  # 0.27 to 0.31
    "13f2245d80f49f92": "rms_norm_forms.in_dtype_of_weight",  # 0.32
    "0adf52771947118e": "rms_norm_forms.in_dtype_of_weight",  # 0.33 to 0.40
    "42caf02dd772b202": "rms_norm_forms.in_dtype_of_weight",  # from 0.41 on
    "d1d421bdc129cad8": "rms_norm_forms.in_dtype_of_input",  # MochiRMSNorm
    "b8c945369e03bd2d": "rms_norm_forms.in_float32",  # Cosmos3NemotronRMSNorm
    "49afab54c1b0e6f4": "rms_norm_forms.in_float32_by_gamma",  # StableAudio3RMSNorm
    "181fc9dd6dd1f77d": "rms_norm_forms.in_float32_centered",  # QwenImage21ZeroCenterRMSNorm
}
_OVER_CHANNELS = "it normalises over another dimension than the last"
_LEFT_ALONE = {
    "e87e6a00e3b59872": "it is a scale around another RMSNorm, which is patched",  # MochiModulatedRMSNorm
    "37f9bfbf0ca33f81": "it calls torch.nn.functional.rms_norm itself",  # Krea2RMSNorm
    "2df268d8d1ec792b": _OVER_CHANNELS,  # PerChannelRMSNorm
    "d1423f694ca5f697": _OVER_CHANNELS,  # Kandinsky6VAERMSNorm
    "65d672a04de1f08f": _OVER_CHANNELS,  # Kandinsky6SRLatentUpscalerRMSNorm
}


def _computes_in_float32(self: Any, hidden_states: Any) -> bool:
    return bool(self.force_fp32)


class RMSNorm(Patch):
    """``*RMSNorm.forward`` of every known form: ``npu_rms_norm`` on an NPU, ``torch.nn.functional.rms_norm`` elsewhere.

    The weight may be None. The result has the dtype that it has on CUDA: upstream's own NPU branch calls the operator
    with a weight of None (up to 0.40), rounds the input before it is normalised, keeps the dtype of the input beside a
    float32 weight, and sends tensors on the CPU to the NPU operator.
    """

    name = "diffusers_rms_norm"
    library = "diffusers"
    requires = "torch>=2.4"
    backends = ("npu", "portable")
    why = "without a weight upstream fails on an NPU; elsewhere it normalises in six separate operators"
    upstream = "*RMSNorm in diffusers/models, diffusers 0.27.2 to 0.42.1"
    until = "diffusers calls a fused operator on the device, with CUDA's dtypes"

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        checks = {"rms_norm_forms.in_float32_by_gamma": _computes_in_float32}
        return [
            structural_patch(
                "*RMSNorm.forward",
                _BUILDERS,
                options,
                left_alone=_LEFT_ALONE,
                checks=checks,
                requires=cls.requires,
            )
        ]
