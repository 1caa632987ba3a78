"""The gated feed-forward layer (SwiGLU) in every model that has one of the known forms of it."""

from __future__ import annotations

from typing import Any, Callable, Mapping

from patcher_core import Patch

from .known_forms import KnownForms


def _gated_by_silu(name: str) -> Callable[..., bool]:
    """A runtime_check: is the module's activation of that name silu? The same code runs with gelu in other models."""

    def is_gated_by_silu(self: Any, *args: Any, **kwargs: Any) -> bool:
        from torch.nn import SiLU
        from transformers import activations

        # "silu" in a configuration means the first in transformers 4.51, and later a class of transformers' own
        return isinstance(getattr(self, name), (SiLU, getattr(activations, "SiLUActivation", SiLU)))

    return is_gated_by_silu


_ACT_FN = _gated_by_silu("act_fn")
_ACTIVATION_FN = _gated_by_silu("activation_fn")
_ACTIVATION = _gated_by_silu("activation")

#: Two layers and what stands between them, experts behind a router, a stack of layers: nothing here is gated.
_NOT_GATED = (
    "2a5a23b11387ac17",  # AltCLIPMLP
    "21680f496a96d717",  # ApertusMLP
    "7a541bbd4b42ceb2",  # AriaProjectorMLP
    "964599942584140a",  # BarkMLP
    "3138d2635fcb25aa",  # BloomMLP
    "01f1d53b8af292a7",  # ClvpEncoderMLP
    "01203b8a7a8eb5f4",  # ClvpDecoderMLP
    "f94633730a34942f",  # CodeGenMLP
    "04d348724449a3d2",  # CohereCompassVisionMLP
    "6c4389f1c51fe8de",  # ConditionalDetrMLP
    "8ee719d5abde4d2a",  # DFineMLP
    "1c22eb4f91c7b609",  # DabDetrMLP
    "427b48e09392451f",  # EdgeTamVideoMemoryAttentionMLP
    "f647acbd8d32e293",  # EdgeTamVideoPerceiverMLP
    "a9186418e8ec4953",  # EfficientLoFTRMLP
    "3b213e97e1151bb3",  # Ernie4_5VLVisionMLP
    "3fd5319376ebc01a",  # Ernie4_5_VLMoeVisionMLP
    "123f98e247d516c1",  # EsmFoldResidueMLP
    "7e8e8691a44cd2b6",  # FalconMLP
    "1f559d0eba3b7eb2",  # FunAsrNanoMLP
    "07d3bd683d53526a",  # GlmAsrMLP
    "55d2b071a4faa527",  # GPTNeoXMLP
    "7461aa0a1117e575",  # GPTNeoXJapaneseMLP
    "7b815e9bd4cb8890",  # GptOssMLP
    "50220ab2c5542bd5",  # GroupViTMixerMLP
    "edc6adf7b86cd9ea",  # Idefics3SimpleMLP
    "21895e1136a2f1d6",  # JanusVisionMLP
    "c90214cc3f6dd944",  # JanusVisionAlignerMLP
    "2068b8f57694bc26",  # LightGlueMLP
    "b8a76ee81a3c4bc2",  # Llama4VisionPixelShuffleMLP
    "fb5edd2e2283e367",  # LwDetrMLP
    "9e220979805f26e8",  # MiniCPMOcrDownsampleMLP
    "0826e29da215cd4f",  # MptMLP
    "5b8d7211ffe4ff41",  # NllbMoeSparseMLP
    "dee5ea6c859d078f",  # OmDetTurboMLP
    "a7f11bf734386b17",  # MLP
    "df5ebc74bfb9298d",  # OpenAIPrivacyFilterMLP
    "e8529083690321a2",  # PatchTSMixerMLP
    "b73f8c0d61666952",  # PerceiverMLP
    "a124f5c6701ffa7d",  # PPOCRV5MobileRecMLP
    "ccb20a43ca304c18",  # DiTMLP
    "3ff6822d44e31392",  # Sam3MLP
    "b59862ec28ae350b",  # Sam3DecoderMLP
    "5fca5e5ea1c1b67b",  # SegformerMixMLP
    "30f3acfbb036e5e7",  # SegformerMLP
    "b68816d559ff2419",  # SLANetMLP
    "c9565c94a2c0711d",  # Starcoder2MLP
    "6160ad5fa5bee1f9",  # SwitchTransformersSparseMLP
    "9099fc792bff702f",  # TimesFmMLP
    "20f3642184aa4a6e",  # VitPoseBackboneMoeMLP
    "107263cdb6a8a719",  # VitPoseBackboneMLP
    "92a67adb3469223b",  # ZayaRouterMLP
    "a42b6353fb642fcc",  # MLP
    "067766a2bf982596",  # SwitchTransformersSparseMLP
    "9ea401d947b3efb7",  # GptOssMLP
    "7675e507fccad64c",  # NllbMoeSparseMLP
    "392ec0ed5de7f14a",  # SwitchTransformersSparseMLP
    "0c3be33637427fcf",  # VitPoseBackboneMoeMLP
    "33c1eb05ba84b8e1",  # SwitchTransformersSparseMLP
)

GATED_MLPS = KnownForms(
    names="*MLP.forward",
    forms={
        "bcf7f325a3d2654e": "gate_up",  # Llama
        "4bd466283f64b6c5": "gate_up",  # Idefics
        "88f8df3e4969409b": "gate_up_hidden_state",  # Qwen2_5_VL
        "8b7980d830d6a7a1": "gate_up_activation_fn",  # Llama4
        "41736a285f518926": "w1_w3",  # Lfm2
        "26336fab2aa6648d": "w1_w3_hidden_states",  # Mixtral of transformers 4
        "9bd4624d5aa4296b": "packed_gate_up",  # Glm, Phi3
        "95a593bce040bf6f": "packed_input_linear",  # GraniteMoeHybrid
        "856a0996b00fd09b": "packed_by_layer",  # Moshi
        "105b020848c316d1": "packed_up_gate",  # Moonshine
        "535429b6029eab2d": "normalised_packed_up_gate",  # Phi4MultimodalAudio
        "8720811ffebcf920": "packed_by_expert",  # Aria of transformers 4
        "82360e8c0483439a": "gate_up_dropout",  # T5Gemma
        "2e1f7facf21d6472": "gate_up_down_dropout",  # SeedOss
        "e7fe7c613f98a41d": "gate_up_normalised",  # BitNet
        "2db0342f64b7c1db": "scaled_gate_up_normalised",  # Dory
        "7b4d1a4ed2312fa0": "gate_up_multiplied",  # FalconH1
        "8f28838c5912320b": "gate_up_scaled",  # Inkling
        "550c4c3ab13bbe6b": "gate_up_in_float32",  # Beam
        "1107ccc84947860b": "clamped_by_limit",  # DeepseekV4
        "f052ce15723c80fd": "clamped_by_swiglu_limit",  # Glm5NextText
        "f46a15d4862d2405": "clamped_by_swiglu_limit_hidden_state",  # Glm5NextVision
        "8cc48a66a47f5fee": "packed_with_adapter",  # Zamba2
    },
    left_alone={
        "b072d7a545498d46": "its gate is not silu, and one is added to the other half",  # MiniMaxM3VL
        "bac23a115830f194": "it clamps between the activation and the product",  # Step3p7
        "1b0c0c7e48bc9a85": "its gate is gelu, of which some layers keep the largest values only",  # Gemma3n
        "ce95e083ddd3710a": "its gate is gelu in every model that has it",  # ModernBert
        **dict.fromkeys(_NOT_GATED, "it is not gated"),
    },
    implementations=f"{__package__}.gated_mlp_forms",
    checks={
        "gate_up": _ACT_FN,
        "gate_up_hidden_state": _ACT_FN,
        "gate_up_activation_fn": _ACTIVATION_FN,
        "w1_w3_hidden_states": _ACT_FN,
        "packed_gate_up": _ACTIVATION_FN,
        "packed_input_linear": _ACTIVATION,
        "packed_by_layer": _ACTIVATION_FN,
        "packed_up_gate": _ACTIVATION_FN,
        "normalised_packed_up_gate": _ACT_FN,
        "gate_up_dropout": _ACT_FN,
        "gate_up_down_dropout": _ACT_FN,
        "gate_up_normalised": _ACT_FN,
        "scaled_gate_up_normalised": _ACT_FN,
        "gate_up_multiplied": _ACT_FN,
        "gate_up_scaled": _ACT_FN,
        "gate_up_in_float32": _ACT_FN,
        "clamped_by_limit": _ACT_FN,
        "clamped_by_swiglu_limit": _ACT_FN,
        "clamped_by_swiglu_limit_hidden_state": _ACT_FN,
        "packed_with_adapter": _ACT_FN,
    },
)


class GatedMLP(Patch):
    """``*MLP.forward`` of every known gated form, where the gate is silu: ``npu_swiglu`` on an NPU.

    The portable implementation gives upstream's result to the bit. The NPU operator computes in float32 and rounds
    once, where upstream rounds the activation and the product. A layer with another activation keeps upstream's code.
    """

    name = "swiglu"
    library = "transformers"
    backends = ("npu", "portable")
    option_names = ("modules",)
    why = "upstream writes the activated gate and the product separately"
    upstream = "*MLP.forward in transformers/models/*/modeling_*.py, transformers 4.51.3 to 5.24.0"
    until = "transformers calls a fused operator on the device"

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        return list(GATED_MLPS.patches(options))
