"""Patches for one model: the files that it is made of, and nothing else."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from patcher_core import Patcher

from .gated_mlp import GatedMLP
from .rms_norm import RMSNorm
from .rotary_embedding import RotaryEmbedding

if TYPE_CHECKING:
    from torch.nn import Module

_PATCHERS: weakref.WeakKeyDictionary[Module, Patcher] = weakref.WeakKeyDictionary()


def apply_to(model: Module, *, backend: str | None = None) -> Patcher:
    """Apply the structural patches to the files that the classes of this model and its parts come from.

    The model may be built already: methods are looked up in the class, and functions in their module, at every call.
    Other models of these classes are patched with it. Files from elsewhere than ``transformers.models`` (a model's own
    code from the Hub, a copy in a project) are patched where their source is a known one.

    Args:
        backend: as in ``Patcher(backend=...)``.

    Returns:
        The patcher, for its ``report`` and ``print_info()``. Applied twice to one model: the same patcher.

    Raises:
        TypeError: ``model`` is no ``torch.nn.Module``.
    """
    _check(model)
    if model not in _PATCHERS:
        files = sorted({type(part).__module__ for part in model.modules()})
        own = tuple(file for file in files if file.partition(".")[0] not in ("torch", "builtins"))
        patcher = Patcher(backend=backend)
        _PATCHERS[model] = patcher.add(RMSNorm, RotaryEmbedding, GatedMLP, options={"modules": own}).apply()
    return _PATCHERS[model]


def restore_from(model: Module) -> None:
    """Undo :func:`apply_to`. What another patcher applied stays.

    Raises:
        ValueError: nothing was applied to this model. TypeError: ``model`` is no ``torch.nn.Module``.
    """
    _check(model)
    patcher = _PATCHERS.pop(model, None)
    if patcher is None:
        raise ValueError(
            f"apply_to() was not called for this {type(model).__name__}; what a Patcher applied is undone by the"
            " restore() of that Patcher"
        )
    patcher.restore()


def _check(model: Module) -> None:
    from torch.nn import Module

    if not isinstance(model, Module):
        raise TypeError(f"expected a torch.nn.Module, got {model!r}")
