"""Products of small square matrices with one vector each, in large batches: projections of points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping

from patcher_core import AtomicPatch, Patch

if TYPE_CHECKING:
    from torch import Tensor


class BatchMatmul(Patch):
    """``torch.matmul``, ``Tensor.matmul`` and ``@`` with ``mx_driving.npu_batch_matmul``, where that is made for it.

    It takes batches of square matrices (rank 4 to 7) times one column each, and multiplies and adds on the vector
    units, where the general product would leave most of the matrix unit idle. Everything else goes to the original.
    """

    name = "batch_matmul"
    legacy_name = "batch_matmul"
    library = "torch"
    backends = ("npu",)
    why = "an NPU multiplies many small matrices slowly"
    upstream = "mx_driving.npu_batch_matmul, mx_driving 26.2.0"

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        targets = ("torch.matmul", "torch.Tensor.matmul", "torch.Tensor.__matmul__")
        return [
            AtomicPatch(target, multiply_on_vector_units, runtime_check=is_batch_of_columns)
            for target in targets
        ]


def is_batch_of_columns(input: Any, other: Any, *, out: Any = None) -> bool:
    """True for the operands that ``mx_driving.npu_batch_matmul`` multiplies as ``torch.matmul`` does.

    Both are dense tensors on the NPU, of the same rank 4 to 7 and the same dtype, float32 or float16 (which it
    accumulates in float32; products of bfloat16 it would round one by one). ``input`` is (..., n, n), ``other``
    (..., n, 1), and their batch dimensions broadcast.
    """
    from torch import Tensor, float16, float32, strided
    from torch.nn import Parameter

    if type(input) not in (Tensor, Parameter) or type(other) not in (Tensor, Parameter):
        return False
    rank = input.dim()
    if not 4 <= rank <= 7 or other.dim() != rank or out is not None:
        return False
    shape, columns = input.shape, other.shape
    return (
        shape[-1] == shape[-2] == columns[-2]
        and columns[-1] == 1
        and all(a == b or a == 1 or b == 1 for a, b in zip(shape[:-2], columns[:-2]))
        and 0 not in shape
        and 0 not in columns
        and input.dtype == other.dtype
        and input.dtype in (float32, float16)
        and input.device == other.device
        and input.device.type == "npu"
        and input.layout == other.layout == strided
        and not _autocast_is_on()
    )


def multiply_on_vector_units(input: Tensor, other: Tensor, *, out: None = None) -> Tensor:
    """(..., n, n) times (..., n, 1) is (..., n, 1); batch dimensions broadcast."""
    import mx_driving

    return mx_driving.npu_batch_matmul(input, other)


def _autocast_is_on() -> bool:
    """Whether the original would choose the dtype of the product itself."""
    import torch

    try:
        return torch.is_autocast_enabled("npu")
    except TypeError:  # torch before 2.4 asks each device's own module
        return torch.npu.is_autocast_enabled()


# transfer_to_npu wraps torch.is_autocast_enabled so that dynamo cannot trace it. With what
# torch.compiler.assume_constant_result sets, dynamo asks while it traces; a graph is guarded by autocast anyway.
_autocast_is_on._dynamo_marked_constant = True  # type: ignore[attr-defined]
