"""The autograd function of the sigmoid focal loss (RetinaNet and every head with focal loss on class indices)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping

from patcher_core import Patch

from .autograd_function import Implementation, autograd_function_patches
from .compiled_operators import run_on_cuda
from .focal_loss import check_arguments, reduced
from .once_differentiable import once_differentiable

if TYPE_CHECKING:
    from torch import Tensor

_FUNCTION = "mmcv.ops.focal_loss.SigmoidFocalLossFunction"


class SigmoidFocalLoss(Patch):
    """``SigmoidFocalLossFunction``: ``mx_driving``'s operator on an NPU, plain PyTorch elsewhere.

    What the NPU operator is not known to compute as CUDA does (weights of classes, a dtype other than float32, no rows)
    is done in plain PyTorch.
    """

    name = "sigmoid_focal_loss"
    library = "mmcv"
    backends = ("npu", "portable")
    why = "mmcv's operator has kernels for CUDA (and MLU) only"
    upstream = "mmcv/ops/focal_loss.py, mmcv 1.4.0 to 2.2.0"
    until = "mmcv brings a kernel for the device"

    original_runs_here = staticmethod(run_on_cuda)

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        portable = Implementation(portable_forward, portable_backward)
        npu = Implementation(npu_forward, npu_backward)
        return autograd_function_patches(_FUNCTION, portable, npu, fits_npu, options)


def portable_forward(
    ctx: Any,
    input: Tensor,
    target: Tensor,
    gamma: float = 2.0,
    alpha: float = 0.25,
    weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The loss of logits (N, C) for labels (N,) int64 in 0..C, where C means background.

    See :mod:`mmcv_patches.extension.focal_loss` for the formula. The mean is over N rows, not over N C values.

    Raises:
        AssertionError: shapes, the dtype of ``target`` or ``reduction`` are not what upstream takes.
        RuntimeError: a label is larger than C.
    """
    from .extension.calling import like_a_compiled_function
    from .extension.focal_loss import sigmoid_focal_loss_forward

    check_arguments(input, target, weight, reduction)
    weight = input.new_empty(0) if weight is None else weight
    ctx.settings = (float(gamma), float(alpha), reduction)
    ctx.save_for_backward(input, target, weight)
    output = input.new_empty(input.shape)
    like_a_compiled_function(sigmoid_focal_loss_forward)(input, target, weight, output, *ctx.settings[:2])
    return reduced(output, reduction)


@once_differentiable
def portable_backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
    """The gradient of :func:`portable_forward` by ``input``; the other arguments have none."""
    from .extension.calling import like_a_compiled_function
    from .extension.focal_loss import sigmoid_focal_loss_backward

    input, target, weight = ctx.saved_tensors
    gamma, alpha, reduction = ctx.settings
    grad_input = input.new_empty(input.shape)
    like_a_compiled_function(sigmoid_focal_loss_backward)(input, target, weight, grad_input, gamma, alpha)
    grad_input *= grad_output
    if reduction == "mean":
        grad_input /= input.size(0)
    return grad_input, None, None, None, None, None


def fits_npu(
    ctx: Any,
    input: Tensor,
    target: Tensor,
    gamma: float = 2.0,
    alpha: float = 0.25,
    weight: Tensor | None = None,
    reduction: str = "mean",
) -> bool:
    """True for rows in float32 on an NPU, without weights of classes."""
    import torch

    return input.device.type == "npu" and input.dtype == torch.float32 and len(input) > 0 and weight is None


def npu_forward(
    ctx: Any,
    input: Tensor,
    target: Tensor,
    gamma: float = 2.0,
    alpha: float = 0.25,
    weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``mx_driving``'s forward."""
    ctx.is_on_npu = True
    return _npu_function().forward(ctx, input, target, gamma, alpha, weight, reduction)


@once_differentiable
def npu_backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor | None, ...]:
    """``mx_driving``'s backward."""
    return _npu_function().backward(ctx, grad_output)


def _npu_function() -> Any:
    from mx_driving.ops.sigmoid_focal_loss import SigmoidFocalLossFunction

    return SigmoidFocalLossFunction
