"""The 1.0 API: function patches ``func(module, options)`` with a priority, and the builder of a patcher of them."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Mapping

from .events import patcher_logger
from .groups import Patch
from .patcher import Patcher
from .patches import LegacyPatch
from .results import PatchResult


class LegacyPatchWrapper(Patch):
    """A 1.0 function patch, made by ``Patch(func, options=None, priority=0, patch_failure_warning=True)``.

    Attributes:
        func: called as ``func(module, options)``. options: handed to it.
        priority: smaller ones run first; wrappers sort by it.
        patch_failure_warning: say so when it fails.
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
        self._made: dict[str, Any] = {}

    @property
    def is_applied(self) -> bool:
        """True while something that was made of this wrapper is in force."""
        return any(made.is_applied for made in self._made.values())

    def for_module(self, target_module: str) -> Any:
        """This function as a patch of ``target_module``; a predefined one as the group that it stands for."""
        group = getattr(self.func, "patch_class", None)
        if group is not None:
            return group(self.options or None)
        if target_module not in self._made:
            self._made[target_module] = LegacyPatch(
                self.func, self.options, target_module, failure_warning=self.patch_failure_warning
            )
        return self._made[target_module]

    def apply(self, target_module: str = "") -> PatchResult:
        """Run the function on ``target_module``; ValueError without one."""
        result: PatchResult = self.for_module(target_module).apply()
        return result

    def __lt__(self, other: LegacyPatchWrapper) -> bool:
        return self.priority < other.priority


def legacy_function(group: type[Patch]) -> Callable[..., list[PatchResult]]:
    """The 1.0 function of a group, named by its ``legacy_name``; ``Patch(function)`` stands for the group."""

    def function(module: Any = None, options: Mapping[str, Any] | None = None) -> list[PatchResult]:
        return group.apply_all(options)

    function.__name__ = function.__qualname__ = group.legacy_name
    function.__module__ = group.__module__
    function.__doc__ = f"Apply {group.__name__} ({group.name}); the module that is handed over is not needed."
    function.patch_class = group  # type: ignore[attr-defined]
    return function


def legacy_functions(groups: Iterable[type[Patch]]) -> dict[str, Callable[..., list[PatchResult]]]:
    """The 1.0 functions of those groups that have a ``legacy_name``, by that name."""
    return {group.legacy_name: legacy_function(group) for group in groups if group.legacy_name}


def add_module_patches(
    patcher: Patcher,
    module_patches: Mapping[str, Iterable[LegacyPatchWrapper]],
    blacklist: Iterable[str] = (),
) -> None:
    """Add 1.0 patches: module by module in the order given, within one the smaller priority first.

    Args:
        blacklist: names of functions to leave out.

    Raises:
        TypeError: naming what is no 1.0 patch; nothing is added then.
    """
    left_out = set(blacklist)
    found = [
        (module, wrapper)
        for module, wrappers in module_patches.items()
        for wrapper in sorted_wrappers(wrappers)
    ]
    patcher.add(*(wrapper.for_module(module) for module, wrapper in found if wrapper.name not in left_out))


def sorted_wrappers(wrappers: Iterable[Any]) -> list[LegacyPatchWrapper]:
    """1.0 patches by priority, those of equal priority in their order; TypeError for anything else."""
    wrappers = list(wrappers)
    for wrapper in wrappers:
        if not isinstance(wrapper, LegacyPatchWrapper):
            raise TypeError(f"1.0 patches are made by Patch(func, options, priority), got {wrapper!r}")
    return sorted(wrappers, key=lambda wrapper: wrapper.priority)


class BuiltPatcher(Patcher):
    """What a :class:`PatcherBuilder` builds: a patcher that can be told to transfer to the NPU ahead of ``apply()``."""

    def transfer_to_npu(self) -> BuiltPatcher:
        """Let ``cuda`` mean ``npu`` from now on, where there is one. ``apply()`` does it as well."""
        try:
            note = self._environment.run_step("transfer_to_npu")
        except KeyError:
            patcher_logger.warning(
                "transfer_to_npu() did nothing: it is a part of patches-torch; install that"
            )
        else:
            patcher_logger.info(f"transfer_to_npu: {note}")
        return self


class PatcherBuilder:
    """Collects 1.0 patches by module and builds a :class:`BuiltPatcher` of them. Every method gives back the builder.

    ``defaults``: start from the ``DEFAULT`` patches of the installed patch sets.
    """

    def __init__(self, *, defaults: bool = False) -> None:
        self._defaults = defaults
        self._module_patches: dict[str, list[LegacyPatchWrapper]] = {}
        self._disabled: list[str] = []
        self._configuration: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def add_module_patch(self, module_name: str, *patches: LegacyPatchWrapper) -> PatcherBuilder:
        """Add 1.0 patches of a module."""
        if not isinstance(module_name, str) or not module_name:
            raise TypeError(f"module_name must be the dotted name of a module, got {module_name!r}")
        sorted_wrappers(patches)
        self._module_patches.setdefault(module_name, []).extend(patches)
        return self

    def disable_patches(self, *names: str) -> PatcherBuilder:
        """Leave out functions by their 1.0 names."""
        for name in names:
            if not isinstance(name, str) or not name:
                raise TypeError(f"disable_patches() takes names of 1.0 patches, got {name!r}")
        self._disabled += names
        return self

    def with_profiling(self, *args: Any, **kwargs: Any) -> PatcherBuilder:
        """Profile the training loop, see :meth:`Patcher.with_profiling`."""
        return self._configure("with_profiling", args, kwargs)

    def brake_at(self, *args: Any, **kwargs: Any) -> PatcherBuilder:
        """End the training early, see :meth:`Patcher.brake_at`."""
        return self._configure("brake_at", args, kwargs)

    def build(self, allow_internal_format: bool = False) -> BuiltPatcher:
        """A patcher of what was collected so far. Building twice and applying both applies each function once."""
        patcher = BuiltPatcher()
        if self._defaults:
            from .discovery import patch_sets

            own = {wrapper.name for wrappers in self._module_patches.values() for wrapper in wrappers}
            patcher.add(*patch_sets()).disable(*(name for name in self._disabled if name not in own))
        add_module_patches(patcher, self._module_patches, self._disabled)
        for method, args, kwargs in self._configuration:
            getattr(patcher, method)(*args, **kwargs)
        if allow_internal_format:
            patcher.allow_internal_format()
        return patcher

    def _configure(self, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> PatcherBuilder:
        getattr(BuiltPatcher(), method)(*args, **kwargs)  # a mistake raises here, where it was made
        self._configuration.append((method, args, kwargs))
        return self


#: Starts from the ``DEFAULT`` patches of the installed patch sets.
default_patcher_builder = PatcherBuilder(defaults=True)
