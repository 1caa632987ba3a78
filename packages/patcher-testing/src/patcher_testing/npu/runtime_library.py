"""Builds the C stand-ins for the device runtime libraries that torch_npu links against.

What must exist is read from the wheels' own undefined symbols. The C sources beside this file model devices,
memory, streams and events; every other symbol becomes a function that returns an error naming itself.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Iterable, Sequence

from .errors import SimulatedNpuUnavailable
from .packages import NpuPackages, cache_folder

SOURCES = Path(__file__).parent / "runtime"

#: The library that holds all modelled symbols; the other stand-ins are empty, lead to it, and exist to be
#: found by name.
MODELLED_LIBRARY = "libascendcl.so"

MODELLED_SOURCES = ("device_runtime.c", "settings.c")

#: Looked for by mx_driving in LD_LIBRARY_PATH.
CHIP_QUERY_LIBRARY = "libdrvdsmi_host.so"

#: Opened by name at run time, so it is not among the libraries that torch_npu links against.
OPENED_AT_RUN_TIME = ("libacl_op_compiler.so",)

COMPILE_FLAGS = ("-shared", "-fPIC", "-O1", "-std=gnu11")


def _tool(name: str) -> str:
    path = shutil.which(os.environ.get("CC", "gcc") if name == "gcc" else name)
    if path is None:
        raise SimulatedNpuUnavailable(
            f"the simulated NPU builds a small C library once and needs {name}, which is not on PATH. "
            "Install a C compiler with binutils (Debian, Ubuntu: apt-get install gcc)"
        )
    return path


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SimulatedNpuUnavailable(
            f"{' '.join(command)} failed with status {done.returncode}:\n{done.stderr}"
        )
    return done.stdout


def undefined_symbols(library: Path) -> set[str]:
    """Dynamic symbols that `library` needs from others; weak ones may stay absent and are left out."""
    lines = _run([_tool("nm"), "-D", "--undefined-only", str(library)]).splitlines()
    return {line.split()[-1].partition("@")[0] for line in lines if " U " in line}


def defined_symbols(library: Path) -> set[str]:
    """Dynamic symbols that `library` offers."""
    lines = _run([_tool("nm"), "-D", "--defined-only", str(library)]).splitlines()
    return {line.split()[-1].partition("@")[0] for line in lines}


def linked_libraries(library: Path) -> set[str]:
    """File names of the libraries that `library` is linked against."""
    return set(re.findall(r"\(NEEDED\).*\[(.+)\]", _run([_tool("readelf"), "-d", str(library)])))


def _torch_libraries() -> list[ctypes.CDLL]:
    """Handles whose symbol search covers torch, the C and C++ runtimes, and the Python interpreter."""
    import torch

    folder = Path(torch.__file__).parent / "lib"
    return [ctypes.CDLL(str(folder / "libtorch_python.so")), ctypes.CDLL(None)]


def missing_symbols(libraries: Iterable[Path]) -> set[str]:
    """Symbols that these libraries need and neither they, torch nor the system provide."""
    libraries = list(libraries)
    needed = set().union(*map(undefined_symbols, libraries))
    needed -= set().union(*map(defined_symbols, libraries))
    providers = _torch_libraries()
    return {symbol for symbol in needed if not any(hasattr(provider, symbol) for provider in providers)}


def missing_libraries(libraries: Iterable[Path]) -> set[str]:
    """Libraries that these are linked against and that the loader does not find."""
    libraries = list(libraries)
    linked = set().union(*map(linked_libraries, libraries)) - {library.name for library in libraries}
    _torch_libraries()
    return {name for name in linked if not _loads(name)}


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def unmodelled_source(symbols: Iterable[str]) -> str:
    """C source in which each symbol is a function that fails with its own name."""
    lines = ['#include "unmodelled.h"']
    for symbol in sorted(symbols):
        if symbol.startswith("_Z"):
            lines.append(f'void {symbol}(void) {{ unmodelled_abort("{symbol}"); }}')
        else:
            lines.append(f'long {symbol}(void) {{ return unmodelled("{symbol}"); }}')
    return "\n".join(lines) + "\n"


def _compile(output: Path, sources: Sequence[Path], *options: str) -> None:
    _run(
        [
            _tool("gcc"),
            *COMPILE_FLAGS,
            f"-I{SOURCES}",
            f"-Wl,-soname,{output.name}",
            "-o",
            str(output),
            *map(str, sources),
            *options,
        ]
    )


def build(folder: Path, packages: NpuPackages) -> None:
    """Compile the stand-ins for `packages` into `folder` (about two seconds).

    Raises:
        SimulatedNpuUnavailable: no compiler, or it fails.
    """
    _compile(folder / CHIP_QUERY_LIBRARY, [SOURCES / "chip_information.c"])
    sources = [SOURCES / name for name in MODELLED_SOURCES]
    _compile(folder / MODELLED_LIBRARY, sources)
    unmodelled = folder / "unmodelled.c"
    needed = missing_symbols(packages.libraries) - defined_symbols(folder / MODELLED_LIBRARY)
    unmodelled.write_text(unmodelled_source(needed))
    _compile(folder / MODELLED_LIBRARY, [*sources, unmodelled])
    empty = folder / "empty.c"
    empty.write_text("")
    for name in sorted({*missing_libraries(packages.libraries), *OPENED_AT_RUN_TIME} - {MODELLED_LIBRARY}):
        # a symbol looked up in any of them is found in the one that holds all
        _compile(folder / name, [empty], "-Wl,--no-as-needed", f"-L{folder}", f"-l:{MODELLED_LIBRARY}")


def _content_key(packages: NpuPackages) -> str:
    """Changes when the C sources, the flags or one of the wheels' libraries change.

    The first megabyte of a library holds its build id and the start of its symbol table; hashing all 100 MB
    would take longer than loading them.
    """
    digest = hashlib.sha256(" ".join(COMPILE_FLAGS).encode())
    for path in [Path(__file__), *sorted(SOURCES.iterdir()), *packages.libraries]:
        digest.update(f"{path.name} {path.stat().st_size}".encode())
        with path.open("rb") as file:
            digest.update(file.read(1 << 20))
    return digest.hexdigest()[:16]


def built_folder(packages: NpuPackages) -> Path:
    """The folder with the stand-ins for `packages`, built now if it was not before.

    Builds in a folder of its own and moves it into place, so that processes started together never see half a
    build.
    """
    target = cache_folder() / f"npu-runtime-{_content_key(packages)}"
    if target.is_dir():
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            made = Path(scratch) / "made"
            made.mkdir()
            build(made, packages)
            try:
                made.rename(target)
            except OSError:
                if not target.is_dir():
                    raise
    except OSError as error:
        raise SimulatedNpuUnavailable(
            f"the simulated NPU's C library could not be written below {target.parent}: {error}. "
            f"Name a writable folder in $PATCHER_TESTING_CACHE"
        ) from error
    return target


def load(folder: Path) -> None:
    """Load the stand-ins, so that the loader finds them by name when torch_npu asks for them."""
    for path in sorted(folder.glob("*.so"), key=lambda path: path.name != MODELLED_LIBRARY):
        ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
