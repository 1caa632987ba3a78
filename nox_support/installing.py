"""Putting into a session's virtual environment what an environment describes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Mapping, Sequence

import nox
import nox.command

from .cuda_stand_ins import write_cuda_stand_ins
from .environments import BUILD_CONSTRAINTS, OVERRIDES, Environment
from .machine import located
from .python_files import install_python_files


def install(
    session: nox.Session, environment: Environment, elsewhere: Mapping[str, Path] | None = None
) -> None:
    """Make `session`'s virtual environment the one that `environment` describes.

    A local package that `elsewhere` names is taken from that folder instead.
    """
    session.env.update(environment.variables)
    session.env["UV_CONSTRAINT"] = write_requirements(session, "pins.txt", environment.exact_pins)
    session.env["UV_BUILD_CONSTRAINT"] = write_requirements(session, "build.txt", BUILD_CONSTRAINTS)
    session.env["UV_OVERRIDE"] = write_requirements(session, "overrides.txt", OVERRIDES)
    if environment.without_dependencies:
        session.install("--no-deps", *environment.without_dependencies)
    folders = [str((elsewhere or {}).get(name, f"packages/{name}")) for name in environment.local]
    editable = [argument for folder in folders for argument in ("-e", folder)]
    session.install(*editable, *environment.packages)
    if environment.cuda_stand_ins:
        written = write_cuda_stand_ins(_site_packages_of(session))
        session.log(f"CUDA stand-ins: {', '.join(file.name for file in written) or 'none needed'}")
    if environment.without_build_isolation:
        session.install("--no-deps", "--no-build-isolation", *environment.without_build_isolation)
    for requirement, compiled_modules in environment.without_compiling.items():
        _install_without_compiling(session, requirement, compiled_modules)


def install_aside(session: nox.Session, variable: str, requirements: Sequence[str]) -> None:
    """Install into a folder of their own what must not be importable, and name the folder in `variable`."""
    found = [located(requirement) for requirement in requirements]
    if None in found:
        session.log(f"{variable} is not set: ../shared/wheels has no {requirements[found.index(None)]}")
        return
    folder = Path(session.virtualenv.location, "aside", variable).resolve()
    session.install("--no-deps", "--target", str(folder), *map(str, found))
    session.env[variable] = str(folder)


def put_on_path(session: nox.Session, pythons: Sequence[str]) -> None:
    """Let tests that compare versions of Python find them as python3.8 and so on, also those that uv keeps."""
    folders = []
    for version in pythons:
        find = ("uv", "python", "find", "--system", version)
        try:
            found = session.run(*find, silent=True, log=False)
        except nox.command.CommandFailed:
            session.run("uv", "python", "install", version)
            found = session.run(*find, silent=True, log=False)
        folders.append(os.path.dirname(str(found).strip()))
    session.env["PATH"] = os.pathsep.join([os.environ["PATH"], *folders])


def write_requirements(session: nox.Session, name: str, requirements: tuple[str, ...]) -> str:
    """Write a file of requirements into the virtual environment; return its path."""
    file = Path(session.virtualenv.location, name).resolve()
    file.write_text("".join(f"{requirement}\n" for requirement in requirements))
    return str(file)


def _install_without_compiling(
    session: nox.Session, requirement: str, compiled_modules: Sequence[str]
) -> None:
    session.install("pip")
    folder = Path(session.create_tmp(), "sdist").resolve()
    download = ("pip", "download", "--quiet", "--no-deps", "--no-build-isolation", "--no-binary", ":all:")
    session.run("python", "-m", *download, "--dest", str(folder), requirement)
    (sdist,) = folder.iterdir()
    install_python_files(sdist, _site_packages_of(session), compiled_modules)
    shutil.rmtree(folder)


def _site_packages_of(session: nox.Session) -> Path:
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return Path(str(session.run("python", "-c", code, silent=True)).strip())
