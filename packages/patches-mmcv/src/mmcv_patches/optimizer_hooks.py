"""mmcv 1.x: clipping in the optimizer hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Iterable, Mapping

from patcher_core import AtomicPatch, Patch

from .gradient_clipping import clip_gradient_norm
from .stream import MMCV_1

if TYPE_CHECKING:
    from torch import Tensor

_MODULE = "mmcv.runner.hooks.optimizer"
_HOOKS = (
    "OptimizerHook",
    "GradientCumulativeOptimizerHook",
    "Fp16OptimizerHook",
    "GradientCumulativeFp16OptimizerHook",
)


class OptimizerHooks(Patch):
    """All four optimizer hooks clip by ``optimizer.clip_grad_norm_fused_`` where the optimizer has it.

    Only the clipping is replaced; when gradients are accumulated, scaled, logged and cleared stays upstream's.
    """

    name = "optimizer_hooks"
    legacy_name = "optimizer_hooks"
    library = "mmcv"
    requires = MMCV_1
    why = "clipping gradient by gradient takes several kernels for each; a fused optimizer has them in one tensor"
    upstream = "mmcv/runner/hooks/optimizer.py, mmcv 1.4.0 to 1.7.2"
    until = "mmcv 2.0, where mmengine's OptimWrapper takes the place of the hooks"

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        return [
            AtomicPatch(f"{_MODULE}.OptimizerHook.clip_grads", clip_grads),
            *(
                AtomicPatch(f"{_MODULE}.{hook}.after_train_iter", target_wrapper=remembering_the_optimizer)
                for hook in _HOOKS
            ),
        ]


def remembering_the_optimizer(after_train_iter: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``after_train_iter`` so that :func:`clip_grads`, which it calls, knows the runner's optimizer."""

    def after_train_iter_remembering_the_optimizer(self: Any, runner: Any) -> Any:
        self._clipped_optimizer = runner.optimizer
        return after_train_iter(self, runner)

    return after_train_iter_remembering_the_optimizer


def clip_grads(self: Any, params: Iterable[Tensor]) -> Tensor | None:
    """Clip as ``self.grad_clip`` says; the norm before, or None where no parameter has a gradient."""
    parameters = [p for p in params if p.requires_grad and p.grad is not None]
    if not parameters:
        return None
    return clip_gradient_norm(getattr(self, "_clipped_optimizer", None), parameters, **self.grad_clip)
