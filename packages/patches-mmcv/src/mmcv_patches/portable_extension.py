"""``mmcv._ext`` where mmcv was installed without its compiled operators."""

from __future__ import annotations

from typing import Any, Mapping

from patcher_core import ModulePatch, Patch

from .extension import build_extension_module


class PortableExtension(Patch):
    """Supplies the module ``mmcv._ext`` in plain PyTorch, on any torch device, forward and backward.

    Where mmcv brings the compiled module, that one is used. Option ``force=True`` supplies this one all the same,
    for an mmcv that was compiled for a device that is not here.
    """

    name = "mmcv_extension"
    library = "mmcv"
    option_names = ("force",)
    why = "mmcv-lite, and mmcv built without a compiler, lack mmcv._ext: `import mmcv.ops` fails"
    upstream = "mmcv/utils/ext_loader.py, mmcv 1.4.0 to 2.2.0"
    until = "mmcv publishes compiled operators for the device"

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        force = bool((options or {}).get("force", False))
        return [ModulePatch("mmcv._ext", build_extension_module, force=force)]
