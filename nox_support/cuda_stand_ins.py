"""Stand-ins for the CUDA libraries that a CUDA build of torch links against.

The wheels of older torch versions on PyPI are CUDA builds. Installed without their dependencies they take a
fraction of the space, but do not load: the dynamic linker wants libcudart, libcublas and others. A stand-in
is a small shared library of the same name that defines every symbol asked of it. It reports that there is
no CUDA device, so torch runs on the CPU.

Needs a Linux machine with `gcc`, `nm` and `readelf`.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Iterable

CUDA_LIBRARY = re.compile(r"^lib(cu|nv|nccl|caffe2_nv)")
CUDA_SYMBOL = re.compile(
    r"^(_*cuda|cublas|cudnn|cufft|cusparse|cusolver|curand|cupti|cuFile|cu[A-Z]|nccl|nvrtc|nvtx|nvJit|nvshmem|_ZN5cudnn)"
)
# CUDA runtime API, error 100: cudaErrorNoDevice.
NO_DEVICE = 100
BODIES = {
    "cudaGetDeviceCount": f"int cudaGetDeviceCount(int *count) {{ *count = 0; return {NO_DEVICE}; }}",
    "cudaDriverGetVersion": "int cudaDriverGetVersion(int *version) { *version = 0; return 0; }",
    "cudaRuntimeGetVersion": "int cudaRuntimeGetVersion(int *version) { *version = 0; return 0; }",
    "cudaGetErrorName": 'const char *cudaGetErrorName(int code) { return "cudaErrorNoDevice"; }',
    "cudaGetErrorString": 'const char *cudaGetErrorString(int code) { return "CUDA stand-in: no device"; }',
}


@dataclass
class Wanted:
    """What one missing library has to define: symbols by version, and symbols without a version."""

    versions: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    unversioned: set[str] = field(default_factory=set)

    @property
    def symbols(self) -> set[str]:
        return self.unversioned.union(*self.versions.values())


def write_cuda_stand_ins(site_packages: Path) -> list[Path]:
    """Write a stand-in beside torch's own libraries for each CUDA library that is missing there.

    Returns the files written, none where torch is a CPU build. Raises FileNotFoundError if torch is not
    installed in `site_packages`, CalledProcessError if gcc rejects a stand-in.
    """
    folder = site_packages / "torch" / "lib"
    if not folder.is_dir():
        raise FileNotFoundError(f"no torch in {site_packages}: install it before asking for CUDA stand-ins")
    present = {path.name for path in site_packages.rglob("lib*.so*")}
    missing_of = {
        library: {name for name in _needed(library) if CUDA_LIBRARY.match(name) and name not in present}
        for library in _shared_libraries(site_packages)
    }
    wanted = _collect_wanted({library: missing for library, missing in missing_of.items() if missing})
    return [_compile(folder / name, wanted[name]) for name in sorted(wanted)]


def _shared_libraries(site_packages: Path) -> Iterable[Path]:
    return (
        path for path in sorted(site_packages.rglob("*.so*")) if path.is_file() and ".so" in path.suffixes
    )


def _collect_wanted(missing_of: dict[Path, set[str]]) -> dict[str, Wanted]:
    wanted: dict[str, Wanted] = defaultdict(Wanted)
    defined: set[str] = set()
    unversioned: set[str] = set()
    for library, missing in missing_of.items():
        owner_of_version = _version_owners(library)
        for version, owner in owner_of_version.items():
            if owner in missing:
                wanted[owner].versions[version]
        defined |= {line.split()[-1].split("@")[0] for line in _nm(library, "--defined-only")}
        for line in _nm(library, "--undefined-only"):
            symbol, _, version = line.split()[-1].partition("@")
            owner = owner_of_version.get(version.lstrip("@"))
            if owner in missing:
                wanted[owner].versions[version.lstrip("@")].add(symbol)
            elif not version and CUDA_SYMBOL.match(symbol):
                unversioned.add(symbol)
    for name in set().union(*missing_of.values()):
        # An unversioned symbol does not say whose it is: each stand-in has it, the first one loaded answers.
        wanted[name].unversioned |= unversioned - defined
    return wanted


def _needed(library: Path) -> set[str]:
    return set(re.findall(r"\(NEEDED\).*\[(.*?)\]", _output_of("readelf", "-dW", str(library))))


def _version_owners(library: Path) -> dict[str, str]:
    """Symbol version → file name of the library it belongs to, from the ELF version requirements."""
    owners: dict[str, str] = {}
    owner = ""
    for line in _output_of("readelf", "-VW", str(library)).splitlines():
        file_name = re.search(r"\bFile: (\S+)", line)
        version = re.search(r"\bName: (\S+)\s+Flags", line)
        if file_name:
            owner = file_name.group(1)
        elif version:
            owners[version.group(1)] = owner
    return owners


def _nm(library: Path, selection: str) -> list[str]:
    return _output_of("nm", "-D", selection, str(library)).splitlines()


def _compile(target: Path, wanted: Wanted) -> Path:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "stand_in.c")
        source.write_text("\n".join(_definition(symbol) for symbol in sorted(wanted.symbols)))
        command = ["gcc", "-shared", "-fPIC", "-w", "-fno-builtin", "-o", str(target), str(source)]
        command.append(f"-Wl,-soname,{target.name}")
        if wanted.versions:
            script = Path(folder, "versions.map")
            script.write_text("".join(_version_node(v, wanted.versions[v]) for v in sorted(wanted.versions)))
            command.append(f"-Wl,--version-script={script}")
        subprocess.run(command, check=True)
    return target


def _definition(symbol: str) -> str:
    code = NO_DEVICE if re.match(r"cuda[GS]etDevice", symbol) else 0
    return BODIES.get(symbol, f"long {symbol}(void) {{ return {code}; }}")


def _version_node(version: str, symbols: set[str]) -> str:
    exported = "global: " + " ".join(f"{symbol};" for symbol in sorted(symbols)) if symbols else ""
    return f"{version} {{ {exported} }};\n"


def _output_of(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
