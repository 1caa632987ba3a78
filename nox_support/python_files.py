"""The Python files alone of an sdist whose compiled modules need a compiler that is not here, CUDA's for example.

What needs the compiled modules does not work; everything else does, and is upstream's own.
"""

from __future__ import annotations

import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import Iterable

# A module's own __getattr__ answers `from module import name` too (PEP 562).
STAND_IN = '''"""Stands in for a compiled module."""


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)

    def not_compiled(*args, **kwargs):
        raise RuntimeError(f"{__name__}.{name} is not compiled here")

    return not_compiled
'''


def install_python_files(sdist: Path, site_packages: Path, compiled_modules: Iterable[str]) -> None:
    """Copy the packages and the metadata of `sdist` into `site_packages`; write a stand-in for each compiled module.

    The packages are the folders beside setup.py that have an ``__init__.py``. Raises FileNotFoundError if one of
    `compiled_modules` belongs to none of them.
    """
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(sdist) as archive:
            archive.extractall(folder, filter="data")
        (root,) = Path(folder).iterdir()
        packages = [file.parent for file in root.glob("*/__init__.py")]
        for package in packages:
            shutil.copytree(package, site_packages / package.name, dirs_exist_ok=True)
        metadata = site_packages / f"{root.name}.dist-info"
        metadata.mkdir(exist_ok=True)
        shutil.copy(root / "PKG-INFO", metadata / "METADATA")
    for module in compiled_modules:
        file = site_packages.joinpath(*module.split(".")).with_suffix(".py")
        if not file.parent.is_dir():
            raise FileNotFoundError(
                f"{sdist.name} has no package for {module}: correct its name in matrix.toml"
            )
        file.write_text(STAND_IN, encoding="utf-8")
