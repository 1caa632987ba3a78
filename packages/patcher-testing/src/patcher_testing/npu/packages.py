"""Where the real torch_npu and mx_driving packages lie, and how they become importable for a while.

They are kept off `sys.path`: where torch_npu is merely importable, a plain `import torch` tries to start it
and fails on a machine without an NPU. A folder made by `pip install --no-deps --target FOLDER torch-npu`
(which is what `python -m patcher_testing.npu install` does) is found here and nowhere else.
"""

from __future__ import annotations

import importlib.machinery
import importlib.metadata
import importlib.util
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator

from .errors import SimulatedNpuUnavailable

#: The versions that the simulated NPU was verified with; torch_npu belongs to exactly one torch.
TORCH_NPU_VERSION = "2.13.0"
MX_DRIVING_VERSION = "26.2.0.post2"

#: One or more folders, separated as in PATH, that hold the packages `torch_npu` and `mx_driving`.
PACKAGES_VARIABLE = "PATCHER_TESTING_NPU_PACKAGES"
CACHE_VARIABLE = "PATCHER_TESTING_CACHE"

#: Top-level modules that exist only while the simulated NPU is active.
SIMULATED_MODULES = ("torch_npu", "torchnpugen", "mx_driving")

INSTALL_COMMAND = "python -m patcher_testing.npu install"


def cache_folder() -> Path:
    """The folder for what is built or downloaded once: PATCHER_TESTING_CACHE, else under the user's cache."""
    configured = os.environ.get(CACHE_VARIABLE)
    if configured:
        return Path(configured)
    user_cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(user_cache) / "patcher-testing"


def default_packages_folder() -> Path:
    """Where `python -m patcher_testing.npu install` puts the packages for this Python."""
    tag = sys.implementation.cache_tag or sys.implementation.name
    return cache_folder() / f"npu-packages-{TORCH_NPU_VERSION}-{tag}"


def _installed_folder(package: str) -> Path | None:
    """The sys.path folder of a package that was installed the ordinary way."""
    if package in sys.modules:
        return None
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations))).parent


def candidate_folders(package: str) -> Iterator[Path]:
    """Folders that may hold `package`, the most explicit first."""
    for folder in os.environ.get(PACKAGES_VARIABLE, "").split(os.pathsep):
        if folder:
            yield Path(folder)
    yield default_packages_folder()
    installed = _installed_folder(package)
    if installed is not None:
        yield installed


def find_package(package: str) -> Path | None:
    """The folder that holds `package` (a folder with an `__init__.py`), or None."""
    for folder in candidate_folders(package):
        if (folder / package / "__init__.py").is_file():
            return folder
    return None


@dataclass(frozen=True)
class NpuPackages:
    """The folders that hold the two real packages."""

    #: holds `torch_npu/`
    torch_npu: Path
    #: holds `mx_driving/`; None where that package is not there
    mx_driving: Path | None

    @property
    def folders(self) -> list[str]:
        """Each folder once."""
        found = [self.torch_npu, *([self.mx_driving] if self.mx_driving else [])]
        return list(dict.fromkeys(str(folder) for folder in found))

    @property
    def libraries(self) -> list[Path]:
        """The shared libraries that are loaded when the packages are imported, in load order."""
        package = self.torch_npu / "torch_npu"
        libraries = [
            package / "lib" / f"lib{name}.so" for name in ("tensorpipe", "npu_profiler", "torch_npu")
        ]
        libraries += sorted(package.glob("_C*.so"))
        if self.mx_driving:
            libraries += sorted((self.mx_driving / "mx_driving").glob("_C*.so"))
        return libraries


def find_packages() -> NpuPackages:
    """Find torch_npu (needed) and mx_driving (optional).

    Raises:
        SimulatedNpuUnavailable: torch_npu is nowhere, or its binary part is not for this Python.
    """
    folder = find_package("torch_npu")
    if folder is None:
        raise SimulatedNpuUnavailable(
            f"the package torch_npu {TORCH_NPU_VERSION} was not found. Looked in ${PACKAGES_VARIABLE}, in "
            f"{default_packages_folder()} and among the installed packages. Get it with: {INSTALL_COMMAND}"
        )
    suffix = importlib.machinery.EXTENSION_SUFFIXES[0]
    if not (folder / "torch_npu" / f"_C{suffix}").is_file():
        found = ", ".join(path.name for path in (folder / "torch_npu").glob("_C*.so")) or "none"
        raise SimulatedNpuUnavailable(
            f"torch_npu in {folder} is built for another Python: expected _C{suffix}, found {found}. "
            f"Get the right one with: {INSTALL_COMMAND}"
        )
    return NpuPackages(torch_npu=folder, mx_driving=find_package("mx_driving"))
