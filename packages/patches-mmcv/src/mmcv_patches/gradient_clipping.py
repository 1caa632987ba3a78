"""Clipping by the norm of all gradients, in one pass where the optimizer has them in one piece of memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterable

if TYPE_CHECKING:
    from torch import Tensor


def clip_gradient_norm(optimizer: Any, parameters: Iterable[Tensor], **settings: Any) -> Tensor:
    """``torch.nn.utils.clip_grad_norm_``, by ``optimizer.clip_grad_norm_fused_`` where that computes the same.

    Fused optimizers (``torch_npu.optim.NpuFused*``) keep the gradients of all parameters in one tensor. They are asked
    where the parameters with a gradient are exactly theirs, and nothing but ``max_norm`` and ``norm_type`` is set.

    Args:
        optimizer: updates the parameters.
        parameters: whose gradients are clipped.
        settings: arguments of ``torch.nn.utils.clip_grad_norm_``.

    Returns:
        The norm before clipping, 0-d.
    """
    import torch

    parameters = [parameter for parameter in parameters if parameter.grad is not None]
    if settings.keys() <= {"max_norm", "norm_type"} and _are_those_of(optimizer, parameters):
        return optimizer.clip_grad_norm_fused_(**settings)
    return torch.nn.utils.clip_grad_norm_(parameters, **settings)


def _are_those_of(optimizer: Any, parameters: list[Tensor]) -> bool:
    if not hasattr(optimizer, "clip_grad_norm_fused_"):
        return False
    own = {id(p) for group in optimizer.param_groups for p in group["params"] if p.grad is not None}
    return own == set(map(id, parameters))
