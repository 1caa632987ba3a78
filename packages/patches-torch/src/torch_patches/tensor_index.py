"""Selecting elements or rows of a tensor by a boolean mask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Mapping, Sequence

from patcher_core import Patch

if TYPE_CHECKING:
    from torch import Tensor


class TensorIndex(Patch):
    """``x[mask]`` as ``masked_select``, for a 1-d mask over the elements of a 1-d or the rows of a 2-d tensor.

    It is a kernel for the NPU. ``torch.Tensor.__getitem__`` is not assigned: that would turn tensors into sequences for
    CPython, for as long as the process lasts, and ``torch.Tensor([torch.tensor(1.0)])`` would fail from then on.
    """

    name = "tensor_index"
    legacy_name = "index"
    library = "torch"
    backends = ("npu",)
    why = "an NPU gathers by position to index by a mask, which takes longer than masked_select"
    upstream = "aten::index.Tensor of torch_npu 2.13.0"

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        from .kernels import KernelPatch

        return [KernelPatch("aten::index.Tensor", index_by_mask, "PrivateUse1")]


def index_by_mask(original: Callable[..., Tensor], self: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    """The elements (1-d) or rows (2-d) of ``self`` where the one index, a mask of as many booleans, is true."""
    mask = indices[0]
    if len(indices) != 1 or mask is None or not _selects_rows(self, mask):
        return original(self, indices)
    if self.dim() == 1:
        return self.masked_select(mask)
    return self.masked_select(mask.unsqueeze(1)).view(-1, self.shape[1])


def _selects_rows(tensor: Tensor, mask: Tensor) -> bool:
    import torch

    return (
        mask.dtype == torch.bool
        and mask.dim() == 1
        and tensor.dim() in (1, 2)
        and mask.shape[0] == tensor.shape[0]
        and tensor.numel() > 0
        and mask.device == tensor.device
        and tensor.layout == torch.strided
    )
