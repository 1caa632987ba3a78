"""Where image and video features go among the tokens of Qwen-VL, without gathering the embeddings first."""

from __future__ import annotations

from typing import Any, Mapping

from patcher_core import Patch, SourceMatchPatch

_FUNCTIONS = f"{__package__}.placeholder_mask_functions"


class Qwen3VLPlaceholderMask(Patch):
    """``get_placeholder_mask`` of Qwen3-VL, and of Qwen2-VL and Qwen2.5-VL, which share its source."""

    name = "qwen3_vl_placeholder_mask"
    library = "transformers"
    backends = ("npu", "portable")
    why = (
        "upstream gathers the embeddings of all image tokens by a boolean mask to count them: a result of unknown size,"
        " for which an NPU waits for the host"
    )
    upstream = (
        "get_placeholder_mask in transformers/models/qwen*_vl*/modeling_*.py, transformers 4.55 to 5.10"
    )
    until = "a later transformers 5 (5.15 at the latest), which counts tokens"

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        return [
            SourceMatchPatch(
                "transformers.models.qwen*_vl*.modeling_*",
                "*.get_placeholder_mask",
                matches={
                    "a74de762e119ca70": f"{_FUNCTIONS}.get_placeholder_mask",
                    "0e04eeea86f84de6": f"{_FUNCTIONS}.get_placeholder_mask_of_5",  # transformers 5.0
                    "3474a542466c3ad5": f"{_FUNCTIONS}.get_placeholder_mask_of_5",  # transformers 5.10
                },
                left_alone={"77d85ff617bf38f6": "it counts tokens and gathers nothing"},
            )
        ]
