"""Whether mmcv's own compiled operators are here, and where they run."""

from __future__ import annotations

import sys


def run_on_cuda() -> bool:
    """True where mmcv was installed with its compiled module and torch finds a CUDA device.

    Neither is imported for the answer where the compiled module is not there.
    """
    if not are_installed():
        return False
    import torch

    return torch.cuda.is_available()


def are_installed() -> bool:
    """True where the installation itself has ``mmcv._ext``; a supplied one does not count."""
    from importlib.machinery import PathFinder

    spec = PathFinder.find_spec("mmcv")
    folders = spec.submodule_search_locations if spec is not None else None
    if folders is None:
        folders = getattr(sys.modules.get("mmcv"), "__path__", [])
    return PathFinder.find_spec("mmcv._ext", list(folders)) is not None
