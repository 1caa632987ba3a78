"""A ResNet in half precision inside a detector in single precision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Mapping

from patcher_core import AtomicPatch, Patch

from .resnet_max_pool import ResNetMaxPool

if TYPE_CHECKING:
    from torch import Tensor

    Forward = Callable[[Any, Tensor], "tuple[Tensor, ...]"]


class ResNetFP16(Patch):
    """``ResNet.forward`` under autocast to float16, on whatever device the images are; its outputs are float32.

    Gradients pass through float16 as well: train with a loss scale (``AmpOptimWrapper``, ``Fp16OptimizerHook``).
    Not together with :class:`ResNetMaxPool`, which replaces the same method.
    """

    name = "resnet_fp16"
    legacy_name = "resnet_fp16"
    library = "mmdet"
    conflicts_with = (ResNetMaxPool,)
    why = "a backbone in float32 takes most of a detector's time and memory"
    upstream = "mmdet/models/backbones/resnet.py, mmdet 2.14 to 3.3"

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        target = "mmdet.models.backbones.resnet.ResNet.forward"
        return [AtomicPatch(target, target_wrapper=in_half_precision)]


def in_half_precision(forward: Forward) -> Forward:
    """Wrap ``ResNet.forward``: computed under autocast to float16, given back in float32."""

    def forward_in_half_precision(self: Any, x: Tensor) -> tuple[Tensor, ...]:
        import torch

        with torch.autocast(x.device.type, dtype=torch.float16):
            features = forward(self, x)
        return tuple(feature.float() for feature in features)

    return forward_in_half_precision
