"""Import control: skip, replace and inject imports, and callbacks that run right after an import."""

from .control import ImportControl, ImportOutcome
from .post_import import Subscription, subscribe
from .replacements import replace_with
from .stubs import SkippedModuleError, is_stub, skipped_by

__all__ = [
    "ImportControl",
    "ImportOutcome",
    "SkippedModuleError",
    "Subscription",
    "is_stub",
    "replace_with",
    "skipped_by",
    "subscribe",
]
