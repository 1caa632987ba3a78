"""The pooling in the stem of a ResNet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping

from patcher_core import AtomicPatch, Patch

from .plain_modules import is_plain

if TYPE_CHECKING:
    from torch import Tensor


class ResNetMaxPool(Patch):
    """``ResNet.forward`` pools with ``mx_driving.npu_max_pool2d`` where no gradient is asked for.

    The operator has no backward: in training it serves stems that are frozen (``frozen_stages`` of 0 and more, as
    in most configurations of detectors). A ``maxpool`` of another kind than upstream's keeps to itself.
    """

    name = "resnet_maxpool"
    legacy_name = "resnet_maxpool"
    library = "mmdet"
    backends = ("npu",)
    why = "torch's pooling also computes the indices that its backward needs"
    upstream = (
        "mmdet/models/backbones/resnet.py, mmdet 2.14 to 3.3; mx_driving.npu_max_pool2d, mx_driving 26.2.0"
    )

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        target = "mmdet.models.backbones.resnet.ResNet.forward"
        return [AtomicPatch(target, forward, runtime_check=pools_on_npu)]


def pools_on_npu(self: Any, x: Tensor) -> bool:
    """True on an NPU for a network with upstream's own pooling, which is not watched by a hook."""
    from torch.nn import MaxPool2d

    pool = self.maxpool
    return (
        x.device.type == "npu"
        and is_plain(pool, MaxPool2d)
        and (pool.kernel_size, pool.stride, pool.padding, pool.dilation) == (3, 2, 1, 1)
        and not pool.ceil_mode
        and not pool.return_indices
    )


def forward(self: Any, x: Tensor) -> tuple[Tensor, ...]:
    """Images (N, 3, H, W) to the feature maps of the stages in ``out_indices``, as ``ResNet.forward``."""
    x = self.stem(x) if self.deep_stem else self.relu(self.norm1(self.conv1(x)))
    x = max_pool(x) if is_poolable(x) else self.maxpool(x)
    features = []
    for stage, name in enumerate(self.res_layers):
        x = getattr(self, name)(x)
        if stage in self.out_indices:
            features.append(x)
    return tuple(features)


def is_poolable(x: Tensor) -> bool:
    """True where ``mx_driving.npu_max_pool2d`` takes ``x``: (N, C, H, W), without gradient.

    Its compiled part refuses other dtypes than float32 and float16, C that is no multiple of 8 (float32) or 16
    (float16), and C above 1024. Its Python part cannot be traced by torch.compile.
    """
    import torch

    multiple = {torch.float32: 8, torch.float16: 16}.get(x.dtype)
    return (
        multiple is not None
        and x.dim() == 4
        and x.shape[1] % multiple == 0
        and x.shape[1] <= 1024
        and not (x.requires_grad and torch.is_grad_enabled())
        and not _is_compiling()
        and _has_the_operator(x.device.index)
    )


def max_pool(x: Tensor) -> Tensor:
    """(N, C, H, W) to (N, C, ceil(H / 2), ceil(W / 2)): the largest of 3 x 3, with stride 2 and padding 1."""
    import mx_driving

    return mx_driving.npu_max_pool2d(x, 3, 2, 1)


def _is_compiling() -> bool:
    import torch

    compiler = getattr(torch, "compiler", None)  # torch 2.1
    return hasattr(compiler, "is_compiling") and compiler.is_compiling()


def _has_the_operator(device: int) -> bool:
    """mx_driving asks the chip for its name, and refuses others than these."""
    import torch

    name = torch.npu.get_device_name(device)
    return "Ascend910" in name or "Ascend950" in name
