"""The 1.0 API: function patches ``func(module, options)`` with a priority."""

from __future__ import annotations

from typing import Any, Callable, Mapping

from .patches import LegacyPatch, Patch
from .results import PatchResult


class LegacyPatchWrapper(Patch):
    """A 1.0 function patch, made by ``Patch(func, options=None, priority=0, patch_failure_warning=True)``.

    Attributes:
        func: called as ``func(module, options)``. options: handed to it.
        priority: smaller ones run first; wrappers sort by it.
        patch_failure_warning: say so when it fails.
        is_applied: True after it ran without an error.
    """

    name = "legacy"

    def __init__(
        self,
        func: Callable[..., Any],
        options: Mapping[str, Any] | None = None,
        priority: int = 0,
        patch_failure_warning: bool = True,
    ) -> None:
        if not callable(func):
            raise TypeError(
                f"func must be callable, got {func!r}; to make a group of patches, subclass Patch"
            )
        if isinstance(priority, bool) or not isinstance(priority, int):
            raise TypeError(f"priority must be an int, got {priority!r}")
        super().__init__(options)
        self.func = func
        self.name = getattr(func, "__name__", type(func).__name__)
        self.priority = priority
        self.patch_failure_warning = bool(patch_failure_warning)
        self.is_applied = False

    def for_module(self, target_module: str) -> LegacyPatch:
        """This function as a patch of ``target_module``."""
        return LegacyPatch(self.func, self.options, target_module)

    def apply(self, target_module: str = "") -> PatchResult:
        """Run the function on ``target_module``; ValueError without one."""
        result = self.for_module(target_module).apply()
        self.is_applied = result.status.value == "applied"
        return result

    def __lt__(self, other: LegacyPatchWrapper) -> bool:
        return self.priority < other.priority
