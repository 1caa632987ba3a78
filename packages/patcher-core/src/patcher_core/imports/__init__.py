"""Import control: skip, replace and inject imports, and callbacks that run right after an import.

Names are loaded when they are first used: a program that only patches attributes does not pay for import control.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .control import ImportControl, ImportOutcome
    from .finder import installed_spec
    from .post_import import Subscription, subscribe
    from .replacements import replace_with
    from .stubs import SkippedModuleError, is_stub, skipped_by

_HOMES = {
    "ImportControl": "control",
    "ImportOutcome": "control",
    "SkippedModuleError": "stubs",
    "Subscription": "post_import",
    "installed_spec": "finder",
    "is_stub": "stubs",
    "replace_with": "replacements",
    "skipped_by": "stubs",
    "subscribe": "post_import",
}

__all__ = [
    "ImportControl",
    "ImportOutcome",
    "SkippedModuleError",
    "Subscription",
    "installed_spec",
    "is_stub",
    "replace_with",
    "skipped_by",
    "subscribe",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value
