"""Whether a module does what its class says, so that something else may do it in its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch.nn import Module

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def is_plain(module: Module, cls: type[Module]) -> bool:
    """True for an instance of ``cls`` itself, not of a subclass, that no hook waits to be called with."""
    return type(module) is cls and not any(getattr(module, hooks, None) for hooks in _HOOKS)
