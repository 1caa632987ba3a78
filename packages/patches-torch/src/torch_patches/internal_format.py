"""The internal formats of an NPU: layouts in which the device stores tensors for its own convenience."""

from __future__ import annotations

from typing import Any, Mapping

from patcher_core import EnvironmentStep


class InternalFormat(EnvironmentStep):
    """Keeps NPU tensors in the layout that PyTorch describes, unless ``Patcher.allow_internal_format()`` was called.

    torch_npu offers ``torch.npu.config.allow_internal_format`` for writing only, so that what it was before cannot be
    put back.
    """

    name = "internal_format"
    library = "torch"
    backends = ("npu",)
    settings = ("allow_internal_format",)
    why = (
        "operators that read storage directly, such as those of mx_driving, see another order of the elements"
    )

    @classmethod
    def run(cls, settings: Mapping[str, Any]) -> str:
        import torch

        allowed = settings.get("allow_internal_format", False)
        torch.npu.config.allow_internal_format = allowed
        return "on" if allowed else "off; Patcher.allow_internal_format() turns it on"
