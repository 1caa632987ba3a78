"""`python -m patcher_testing.npu install`: get torch_npu and mx_driving where only the simulated NPU finds
them.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Sequence

from .packages import MX_DRIVING_VERSION, TORCH_NPU_VERSION, default_packages_folder
from .session import simulated_npu

DISTRIBUTIONS = (f"torch-npu=={TORCH_NPU_VERSION}", f"mx-driving=={MX_DRIVING_VERSION}")


def _installer() -> list[str]:
    """pip of this Python, or uv where the environment was made without pip.

    Raises:
        SystemExit: there is neither.
    """
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip", "install"]
    uv = shutil.which("uv")
    if uv:
        return [uv, "pip", "install", "--python", sys.executable]
    raise SystemExit("neither pip nor uv is available to this Python: install one of them")


def install(folder: Path) -> int:
    """Install the two packages, without their dependencies, into `folder`. Returns the installer's exit
    status.
    """
    for distribution in DISTRIBUTIONS:
        command = [*_installer(), "--no-deps", "--upgrade", "--target", str(folder), distribution]
        print(" ".join(command), flush=True)
        status = subprocess.run(command).returncode
        if status:
            return status
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m patcher_testing.npu", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    installing = commands.add_parser("install", help="get torch_npu and mx_driving")
    installing.add_argument("--into", type=Path, default=default_packages_folder(), metavar="FOLDER")
    commands.add_parser("check", help="start the simulated NPU and say what it found")
    options = parser.parse_args(arguments)
    if options.command == "install":
        return install(options.into)
    with simulated_npu() as npu:
        mx_driving = "found" if npu.has_mx_driving else "absent"
        print(f"simulated NPU: torch_npu {npu.torch_npu.__version__}, mx_driving {mx_driving}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
