"""An autograd function of mmcv that has two implementations: with the operators of an NPU, and in plain PyTorch."""

from __future__ import annotations

from typing import Any, Callable, Mapping, NamedTuple

from patcher_core import AtomicPatch, backend_of

__all__ = ["Implementation", "autograd_function_patches"]


class Implementation(NamedTuple):
    """Forward and backward, with the arguments of upstream's, ``ctx`` first."""

    forward: Callable[..., Any]
    backward: Callable[..., Any]


def autograd_function_patches(
    function: str,
    portable: Implementation,
    npu: Implementation,
    fits_npu: Callable[..., bool],
    options: Mapping[str, Any] | None,
) -> list[AtomicPatch]:
    """Replace forward and backward of the autograd function at the path ``function``.

    Everything is portable, unless the option ``backend`` is "npu": then a call whose arguments ``fits_npu`` accepts
    runs on the NPU, and its backward too, for which ``npu.forward`` must set ``ctx.is_on_npu``.
    """
    patches = [
        AtomicPatch(f"{function}.forward", portable.forward),
        AtomicPatch(f"{function}.backward", portable.backward),
    ]
    if backend_of(options) == "npu":
        patches += [
            AtomicPatch(f"{function}.forward", npu.forward, runtime_check=fits_npu),
            AtomicPatch(f"{function}.backward", npu.backward, runtime_check=_forward_ran_on_npu),
        ]
    return patches


def _forward_ran_on_npu(ctx: Any, grad_output: Any) -> bool:
    """Backward goes the way that forward went, whose arguments it does not see."""
    return getattr(ctx, "is_on_npu", False)
