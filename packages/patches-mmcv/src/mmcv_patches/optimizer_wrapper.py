"""mmengine: clipping in the optimizer wrapper."""

from __future__ import annotations

import functools
from typing import Any, Callable, Mapping

from patcher_core import AtomicPatch, Patch

from .gradient_clipping import clip_gradient_norm


class OptimizerWrapper(Patch):
    """``OptimWrapper`` clips by ``optimizer.clip_grad_norm_fused_`` where the optimizer has it.

    Clipping by value, and a clipping function of a subclass's own, stay as they are.
    """

    name = "optimizer_wrapper"
    legacy_name = "optimizer_wrapper"
    library = "mmengine"
    why = "clipping gradient by gradient takes several kernels for each; a fused optimizer has them in one tensor"
    upstream = "mmengine/optim/optimizer/optimizer_wrapper.py, mmengine 0.7 to 0.10"
    until = "torch_npu's fused optimizers take part in torch.nn.utils.clip_grad_norm_"

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        return [
            AtomicPatch(
                "mmengine.optim.optimizer.optimizer_wrapper.OptimWrapper.__init__",
                target_wrapper=clipping_fused,
            )
        ]


def clipping_fused(init: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``OptimWrapper.__init__``: where it chose torch's clipping by norm, the optimizer is asked first."""

    def init_clipping_fused(self: Any, *args: Any, **kwargs: Any) -> None:
        import torch

        init(self, *args, **kwargs)
        if getattr(self, "clip_func", None) is torch.nn.utils.clip_grad_norm_:
            self.clip_func = functools.partial(clip_gradient_norm, self.optimizer)

    return init_clipping_fused
