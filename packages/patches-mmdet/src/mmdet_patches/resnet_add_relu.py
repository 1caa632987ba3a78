"""The end of a residual block in one operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Mapping

from patcher_core import AtomicPatch, Patch

from .plain_modules import is_plain

if TYPE_CHECKING:
    from torch import Tensor

_MODULE = "mmdet.models.backbones.resnet"


class ResNetAddRelu(Patch):
    """``BasicBlock.forward`` and ``Bottleneck.forward`` end with ``mx_driving.npu_add_relu(out, identity)``.

    Convolutions, plugins, downsampling and checkpointing are those of the block. Subclasses that inherit
    ``forward`` (ResNeXt, RegNet) are served as well; those with a ``forward`` of their own (Res2Net, ResNeSt,
    TridentNet, DetectoRS) are not concerned.
    """

    name = "resnet_add_relu"
    legacy_name = "resnet_add_relu"
    library = "mmdet"
    backends = ("npu",)
    why = "the sum and the activation at the end of each block read and write the whole feature map twice"
    upstream = f"{_MODULE}, mmdet 2.14 to 3.3; mx_driving.npu_add_relu, mx_driving 26.2.0"

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        blocks = {"BasicBlock": basic_block_forward, "Bottleneck": bottleneck_forward}
        return [
            AtomicPatch(f"{_MODULE}.{block}.forward", forward, runtime_check=ends_with_relu_on_npu)
            for block, forward in blocks.items()
        ]


def ends_with_relu_on_npu(self: Any, x: Tensor) -> bool:
    """True on an NPU for a block whose activation is ReLU, and is not watched by a hook."""
    from torch.nn import ReLU

    return x.device.type == "npu" and is_plain(self.relu, ReLU)


def basic_block_forward(self: Any, x: Tensor) -> Tensor:
    """(N, C, H, W) to (N, planes, H / stride, W / stride), as ``BasicBlock.forward``."""

    def branch(x: Tensor) -> Tensor:
        out = self.relu(self.norm1(self.conv1(x)))
        return self.norm2(self.conv2(out))

    return _residual_forward(self, branch, x)


def bottleneck_forward(self: Any, x: Tensor) -> Tensor:
    """(N, C, H, W) to (N, 4 * planes, H / stride, W / stride), as ``Bottleneck.forward``."""

    def with_plugins(out: Tensor, position: str) -> Tensor:
        return (
            self.forward_plugin(out, getattr(self, f"{position}_plugin_names")) if self.with_plugins else out
        )

    def branch(x: Tensor) -> Tensor:
        out = with_plugins(self.relu(self.norm1(self.conv1(x))), "after_conv1")
        out = with_plugins(self.relu(self.norm2(self.conv2(out))), "after_conv2")
        return with_plugins(self.norm3(self.conv3(out)), "after_conv3")

    return _residual_forward(self, branch, x)


def _residual_forward(block: Any, branch: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    from torch.utils.checkpoint import checkpoint

    def forward(x: Tensor) -> Tensor:
        out = branch(x)
        return add_relu(out, x if block.downsample is None else block.downsample(x))

    # As upstream calls it: how it checkpoints is for the installed torch to say.
    return checkpoint(forward, x) if block.with_cp and x.requires_grad else forward(x)


def add_relu(out: Tensor, identity: Tensor) -> Tensor:
    """``relu(out + identity)`` in the dtype of ``out``, which may be overwritten, as upstream overwrites it.

    ``mx_driving`` has compiled it for float32 and float16. It writes into ``out``.
    """
    import torch

    is_fusable = (
        out.dtype == identity.dtype
        and out.dtype in (torch.float32, torch.float16)
        and out.shape == identity.shape
        and out.is_contiguous()
        and identity.is_contiguous()
    )
    if not is_fusable:
        out += identity
        return torch.relu_(out)
    import mx_driving

    return mx_driving.npu_add_relu(out, identity)
