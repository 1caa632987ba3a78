"""mmdet and its relatives refuse, when they are imported, mmcv versions that their release did not know."""

from __future__ import annotations

import importlib
from importlib.util import find_spec

from patcher_core import patcher_logger

__all__ = ["ensure_mmcv_version", "patch_mmcv_version"]

_LIBRARIES = ("mmdet", "mmseg", "mmdet3d")


def ensure_mmcv_version(expected_version: str) -> None:
    """Import mmdet, mmseg and mmdet3d, those that are installed, while mmcv says that it is ``expected_version``.

    Their ``__init__`` compares ``mmcv.__version__`` with a range and raises AssertionError outside it. Afterwards mmcv
    has its real version again, whatever happened. A library that fails to import all the same is named in a warning.

    Args:
        expected_version: a version that the library accepts, such as ``"2.1.0"`` for mmdet 3.3.0.

    Raises:
        TypeError: ``expected_version`` is not text.
        ModuleNotFoundError: mmcv is not installed.
    """
    if not isinstance(expected_version, str):
        raise TypeError(f"expected_version must be text such as '2.1.0', got {expected_version!r}")
    import mmcv

    real_version = mmcv.__version__
    mmcv.__version__ = expected_version
    try:
        for library in _LIBRARIES:
            _import_if_installed(library, expected_version)
    finally:
        mmcv.__version__ = real_version


def patch_mmcv_version(expected_version: str) -> None:
    """The name of :func:`ensure_mmcv_version` in the 1.0 API."""
    ensure_mmcv_version(expected_version)


def _import_if_installed(library: str, shown_version: str) -> None:
    if find_spec(library) is None:
        return
    try:
        importlib.import_module(library)
    except Exception as error:
        patcher_logger.warning(
            f"{library} does not import with mmcv {shown_version} shown to it: {type(error).__name__}: {error}."
            f" If it names another version of mmcv, pass that one to ensure_mmcv_version"
        )
