"""Image processors that work on the device: on the NPU of their own rank, with permutations that it can take."""

from __future__ import annotations

from typing import Any, Mapping

from patcher_core import AtomicPatch, Form, Patch, SourceMatchPatch

_ON_NUMPY = "it works on NumPy arrays"


class ImageProcessorDevice(Patch):
    """The fast image processors move an image to the NPU of their rank, unless they are called with a device.

    The rank's NPU is the one that ``LOCAL_RANK`` numbers, the first where that is not set.
    """

    name = "image_processor_device"
    library = "transformers"
    backends = ("npu",)
    why = "without a device upstream processes images on the host, and 'cuda' means the first device for every rank"
    upstream = "BaseImageProcessorFast (transformers 4), TorchvisionBackend (transformers 5)"
    until = "a transformers that picks the device of the rank"

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        return [
            AtomicPatch(
                "transformers.image_processing_utils_fast.BaseImageProcessorFast._process_image",
                target_wrapper=_on_the_ranks_npu,
                requires="transformers<5",
            ),
            AtomicPatch(
                "transformers.image_processing_backends.TorchvisionBackend.process_image",
                target_wrapper=_on_the_ranks_npu,
                requires="transformers>=5",
            ),
        ]


class Qwen2VLPreprocess(Patch):
    """The image and video processors of Qwen-VL permute ten dimensions in parts of at most eight."""

    name = "qwen2vl_preprocess"
    library = "transformers"
    backends = ("npu",)
    why = "cutting an image into patches permutes ten dimensions, and an NPU copies eight at most"
    upstream = "_preprocess in transformers/models/qwen*_vl/*_processing_*.py, transformers 4.51.3 to 5.24.0"
    until = "a torch_npu that permutes ten dimensions"

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        known = (
            "6fe109fee70f6fe9",  # Qwen2VLImageProcessorFast of transformers 4.51
            "98dccac1032444ba",  # Qwen2VLImageProcessorFast of transformers 4.57
            "0b5d7dd99363818b",  # Qwen2VLVideoProcessor of transformers 4
            "a9a336a79f2bdd36",  # Qwen3VLVideoProcessor of transformers 4
            "4e5603aeae870264",  # Qwen2VLVideoProcessor
            "1e2f135d3e7ac1db",  # Qwen3VLVideoProcessor
        )
        return [
            SourceMatchPatch(
                "transformers.models.qwen*_vl.*_processing_qwen*",
                "Qwen*._preprocess",
                matches=dict.fromkeys(known, Form(target_wrapper=_with_permutes_in_parts)),
                left_alone={
                    "036f14fb738cbfd6": _ON_NUMPY,
                    "c87b036fe99c0309": _ON_NUMPY,
                    "76412af504017cf9": "it permutes eight dimensions",  # Qwen2VLImageProcessor of transformers 5
                },
            )
        ]


def _on_the_ranks_npu(original: Any) -> Any:
    from .image_processor_functions import on_the_ranks_npu

    return on_the_ranks_npu(original)


def _with_permutes_in_parts(original: Any) -> Any:
    from .image_processor_functions import with_permutes_in_parts

    return with_permutes_in_parts(original)
