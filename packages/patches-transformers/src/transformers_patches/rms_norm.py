"""RMSNorm in every model that has one of the known forms of it."""

from __future__ import annotations

from typing import Any, Mapping

from patcher_core import Patch

from .known_forms import KnownForms

RMS_NORMS = KnownForms(
    names="*RMSNorm.forward",
    forms={
        "c3ee72e2260bfc2b": "rounded_then_scaled",  # LlamaRMSNorm
        "87c62981de6de822": "rounded_then_scaled_by_moved_weight",  # FalconMambaRMSNorm of transformers 4
        "721cf62bf6dd8f12": "rounded_then_scaled_x",  # Llama4TextRMSNorm
        "322757258e3a57bf": "scaled_then_rounded",  # Olmo2RMSNorm, GptOssRMSNorm
        "9f841fe65becc97d": "scaled_then_rounded",  # HeliumRMSNorm: the weight as float32, which the product is anyway
        "823b2946e1d4055a": "scaled_then_rounded_x",  # MoshiRMSNorm
        "72343cec610b7c72": "scaled_then_rounded_x",  # Gemma3nRMSNorm of transformers 4
        "92153b099581b867": "scaled_if_asked",  # Gemma3nRMSNorm, Gemma4RMSNorm
        "3ee51e8bc2329143": "centered",  # GemmaRMSNorm
        "d462163a2022cad6": "centered_in_own_dtype",  # MuseSparkTextCenteredRMSNorm
        "4080663be1616d29": "scaled_before_normalised",  # MuseSparkTextInputScaledRMSNorm
        "49093a6648276c40": "unscaled_x",  # NanoChatRMSNorm
        "724b76859d877d72": "unscaled",  # Inkling2UnweightedRMSNorm
        "eb4b083dbf1a70c8": "rounded_to_weight_then_scaled",  # IdeficsRMSNorm
    },
    left_alone={
        "4443dae22835a480": "it rounds the reciprocal of the root mean square before it multiplies, which no fused"
        " operator does",
        "3fa495e83a20a8d4": "it gives back the reciprocal of the root mean square, not a normalised tensor",
        "ca89968055cdc97c": "it is a gate around another RMSNorm, which is patched",
        "862459f064aded73": "it normalises groups of channels",
        "b21d990b87fcbb64": "it has a bias and may reduce in the dtype of its input",
    },
    implementations=f"{__package__}.rms_norm_forms",
)


class RMSNorm(Patch):
    """``*RMSNorm.forward`` of every known form: ``npu_rms_norm`` on an NPU, plain PyTorch elsewhere.

    The portable implementation gives upstream's result to the bit, in every dtype; only two forms of Gemma3n and
    Gemma4, which take the root in another way, may differ in the last place. The NPU operator computes in float32 and
    rounds once, so in bfloat16 and float16 it may differ by one unit in the last place from a form that rounds before
    it scales.
    """

    name = "rms_norm"
    library = "transformers"
    requires = "torch>=2.4"
    backends = ("npu", "portable")
    option_names = ("modules",)
    why = "upstream normalises in six separate operators, each of which reads and writes the whole tensor"
    upstream = "*RMSNorm in transformers/models/*/modeling_*.py, transformers 4.51.3 to 5.24.0"
    until = "transformers calls a fused operator on the device"

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        return list(RMS_NORMS.patches(options))
