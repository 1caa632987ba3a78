"""What programs written for ``mx_driving.patcher`` write in another form than this project does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, Sequence, TypeVar

from ..import_specs import DecoratorSpec, ImportSpec, LentName, parse_decorators, parse_name_list, parse_specs
from ..lent_imports import lending
from .predefined import predefined

if TYPE_CHECKING:
    from ..library_version import LibraryVersion

F = TypeVar("F")


def with_imports(*specs: ImportSpec, apply_decorators: Sequence[object] | None = None) -> Callable[[F], F]:
    """:func:`patcher_core.with_imports` in which a tuple is ``(module, name, name, ...)``: a list of names, no alias.

    Raises what that raises; a missing module or name is an ImportError at the first call, which names it.
    """
    names: list[LentName] = []
    decorators: list[DecoratorSpec] = []
    for spec in specs:
        if isinstance(spec, tuple):
            names += parse_name_list(spec)
        else:
            more_names, more_decorators = parse_specs([spec])
            names += more_names
            decorators += more_decorators
    return lending(names, decorators + parse_decorators(apply_decorators))


class _IsMmcv:
    """Whether the installed mmcv is of one family: true or false by itself, and when it is called."""

    def __init__(self, family: str) -> None:
        self._family = family

    def __bool__(self) -> bool:
        version: LibraryVersion = predefined("patches-mmcv", "mmcv_version")
        return bool(getattr(version, self._family))

    def __call__(self) -> bool:
        return bool(self)

    def __repr__(self) -> str:
        return f"<mmcv {self._family}>"


is_mmcv_v1x = _IsMmcv("is_v1x")
is_mmcv_v2x = _IsMmcv("is_v2x")


def patch_mmcv_version(expected_version: str) -> None:
    """``mmcv_patches.patch_mmcv_version``; looked up when called, as the operator library imports this by itself.

    Raises:
        ImportError: patches-mmcv is not installed.
    """
    predefined("patches-mmcv", "patch_mmcv_version")(expected_version)
