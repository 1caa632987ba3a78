"""Importing this makes torchvision and the image processor of Qwen2-VL importable: once instead of in many processes.

torchvision lies in the folder that PATCHER_REFERENCE_TORCHVISION names (`environments.toml`, key `aside`). Its compiled
part is not needed; without it the import asks for two operators to be declared.
"""

from __future__ import annotations

import os
import sys

import torch

sys.path.append(os.environ["PATCHER_REFERENCE_TORCHVISION"])
#: The operators last as long as this.
_DECLARED = torch.library.Library("torchvision", "FRAGMENT")
for _name in ("nms", "qnms"):
    _DECLARED.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

from transformers.models.qwen2_vl.image_processing_qwen2_vl_fast import Qwen2VLImageProcessorFast  # noqa: E402


def image_processor():
    return Qwen2VLImageProcessorFast(patch_size=14, min_pixels=28 * 28, max_pixels=28 * 28 * 16)
