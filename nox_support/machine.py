"""What the machine offers: interpreters, package sources, compiled reference wheels."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

from .environments import ROOT


def prepare_process_environment() -> None:
    """Set up the variables that uv, pyenv and Python read, for every session that follows."""
    # Tests start many processes; compiling every module again in each doubles their start.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # Torch's threads spin while they wait for one another: on a busy machine of few cores that is most of the time.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    _show_all_pyenv_interpreters()
    _give_uv_the_package_sources_of_pip()


def _show_all_pyenv_interpreters() -> None:
    """pyenv's shims answer only for versions named in PYENV_VERSION: name all that are installed."""
    if shutil.which("pyenv") is None:
        return
    selected = _output_of("pyenv", "version-name").split(":")
    installed = [v for v in _output_of("pyenv", "versions", "--bare").split() if re.match(r"^\d[\d.]*$", v)]
    os.environ["PYENV_VERSION"] = ":".join(dict.fromkeys([*selected, *reversed(installed)]))


def _give_uv_the_package_sources_of_pip() -> None:
    """uv reads none of pip's settings, and takes torch with gigabytes of CUDA unless told otherwise."""
    for pip_name, uv_name in (("PIP_FIND_LINKS", "UV_FIND_LINKS"), ("PIP_INDEX_URL", "UV_DEFAULT_INDEX")):
        if pip_name in os.environ:
            os.environ.setdefault(uv_name, os.environ[pip_name])
    # Whoever keeps packages of their own keeps a torch of their own, and may not reach PyTorch's index.
    if "UV_FIND_LINKS" not in os.environ:
        os.environ.setdefault("UV_TORCH_BACKEND", "cpu")


def _output_of(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def located(requirement: str) -> str | None:
    """The requirement itself; for a wheel file its path in ../shared/wheels, or None where it is missing."""
    if not requirement.endswith(".whl"):
        return requirement
    wheel = ROOT.parent / "shared" / "wheels" / requirement
    return str(wheel) if wheel.is_file() else None
