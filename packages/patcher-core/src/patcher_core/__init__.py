"""The engine: replaces attributes, controls imports, and says exactly what it did. It knows no library.

Names are loaded when they are first used, so that importing this package costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .backends import backend_of, register_backend
    from .custom_patch import CustomPatch, PutIn
    from .default import default_patcher
    from .environment import EnvironmentStep
    from .events import (
        LogAction,
        PatcherLogger,
        PatchError,
        configure_patcher_logging,
        configure_summary,
        patcher_logger,
        set_patcher_log_level,
    )
    from .groups import Patch
    from .imports import SkippedModuleError, replace_with
    from .legacy import PatcherBuilder, default_patcher_builder
    from .lent_imports import with_imports
    from .library_version import LibraryVersion, check_version, get_version
    from .patcher import Patcher
    from .patches import AtomicPatch, BasePatch, LegacyPatch, ModulePatch, RegistryPatch, Value
    from .references import keep
    from .replaced import number_of_changes, replaced_functions
    from .results import ApplyReport, PatchResult, PatchStatus
    from .source_match import Form, SourceMatchPatch

_HOMES = {
    "ApplyReport": "results",
    "AtomicPatch": "patches",
    "BasePatch": "patches",
    "CustomPatch": "custom_patch",
    "EnvironmentStep": "environment",
    "LegacyPatch": "patches",
    "LibraryVersion": "library_version",
    "LogAction": "events",
    "ModulePatch": "patches",
    "Patch": "groups",
    "PatchError": "events",
    "PatchResult": "results",
    "PatchStatus": "results",
    "Patcher": "patcher",
    "PatcherBuilder": "legacy",
    "PatcherLogger": "events",
    "PutIn": "custom_patch",
    "RegistryPatch": "patches",
    "Form": "source_match",
    "SkippedModuleError": "imports",
    "SourceMatchPatch": "source_match",
    "Value": "patches",
    "backend_of": "backends",
    "check_version": "library_version",
    "configure_patcher_logging": "events",
    "configure_summary": "events",
    "default_patcher": "default",
    "default_patcher_builder": "legacy",
    "get_version": "library_version",
    "keep": "references",
    "number_of_changes": "replaced",
    "patcher_logger": "events",
    "register_backend": "backends",
    "replace_with": "imports",
    "replaced_functions": "replaced",
    "set_patcher_log_level": "events",
    "with_imports": "lent_imports",
}

__all__ = [
    "ApplyReport",
    "AtomicPatch",
    "BasePatch",
    "CustomPatch",
    "EnvironmentStep",
    "Form",
    "LegacyPatch",
    "LibraryVersion",
    "LogAction",
    "ModulePatch",
    "Patch",
    "PatchError",
    "PatchResult",
    "PatchStatus",
    "Patcher",
    "PatcherBuilder",
    "PatcherLogger",
    "PutIn",
    "RegistryPatch",
    "SkippedModuleError",
    "SourceMatchPatch",
    "Value",
    "backend_of",
    "check_version",
    "configure_patcher_logging",
    "configure_summary",
    "default_patcher",
    "default_patcher_builder",
    "get_version",
    "keep",
    "number_of_changes",
    "patcher_logger",
    "register_backend",
    "replace_with",
    "replaced_functions",
    "set_patcher_log_level",
    "with_imports",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
