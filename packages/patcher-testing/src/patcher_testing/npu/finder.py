"""Makes torch_npu and mx_driving importable while the simulated NPU is active."""

from __future__ import annotations

import importlib.machinery
import importlib.metadata
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Callable, Iterable, Mapping

from .mx_extension import ExtensionLoader, PackageLoader
from .packages import SIMULATED_MODULES, NpuPackages


def _is_simulated(module_name: str) -> bool:
    return module_name.partition(".")[0] in SIMULATED_MODULES


class SimulatedPackagesFinder:
    """A meta path finder for torch_npu and mx_driving, their metadata included, and for nothing else."""

    def __init__(
        self, packages: NpuPackages, runtime_folder: Path, mx_references: Mapping[str, Callable[..., Any]]
    ) -> None:
        self._folders = packages.folders
        self._runtime_folder = str(runtime_folder)
        self._mx_references = mx_references

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name == "mx_driving._C":
            spec = importlib.machinery.PathFinder.find_spec(name, path)
            if spec is not None:
                spec.loader = ExtensionLoader(spec.origin, self._mx_references)
            return spec
        if name not in SIMULATED_MODULES:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, self._folders)
        if spec is not None and name == "mx_driving":
            spec.loader = PackageLoader(spec.loader, self._runtime_folder)
        return spec

    def invalidate_caches(self) -> None:
        """Nothing is cached here; the import system calls this on every finder."""

    def find_distributions(self, context: Any = None) -> Iterable[Any]:
        wanted = (getattr(context, "name", None) or "").replace("-", "_")
        everywhere = importlib.metadata.DistributionFinder.Context(path=self._folders)
        for distribution in importlib.metadata.MetadataPathFinder.find_distributions(everywhere):
            name = (distribution.metadata["Name"] or "").replace("-", "_")
            if name in SIMULATED_MODULES and wanted in ("", name):
                yield distribution


def hide_modules() -> dict[str, ModuleType]:
    """Take the simulated packages' modules out of `sys.modules` and keep them from being imported again.

    None in `sys.modules` makes an import fail and a probe answer "absent", also where the package is
    installed like any other: a second copy of it in one process would register everything twice.
    """
    taken = {name: sys.modules.pop(name) for name in list(sys.modules) if _is_simulated(name)}
    for name in SIMULATED_MODULES:
        sys.modules[name] = None  # type: ignore[assignment]
    return taken
