"""A dotted path → the attribute it names.

A path means what an import followed by attribute access would reach: ``package.module.Class.method``, a key of a
dict reached by attributes (``mmengine.registry.MODELS._module_dict.SubMConv3d``), a name that a package
re-exports. Lookups are static; only for a target that the user named, in an eager apply, a module's ``__getattr__``
may answer.
"""

from __future__ import annotations

import importlib
import sys
from types import GetSetDescriptorType, ModuleType
from typing import Any, Collection, Iterator

from .attributes import (
    ABSENT,
    AnsweredAttribute,
    Attribute,
    ModuleAttribute,
    TargetError,
    attribute_of,
    describe,
    is_class,
    module_dict,
    static_value,
)
from .results import PatchStatus, described_error


class TargetAbsent(TargetError):
    """The module or the attribute does not exist in this environment: nothing to patch."""

    status = PatchStatus.SKIPPED


class TargetPending(TargetError):
    """The module is not imported yet and must not be imported on the patcher's account."""

    status = PatchStatus.PENDING


def checked_path(path: object, argument: str = "target") -> str:
    """``path`` itself if it is a dotted path; TypeError or ValueError that names ``argument`` otherwise.

    A path of one segment passes here: it is well-formed but names no attribute, which :func:`locate` reports.
    """
    if not isinstance(path, str):
        raise TypeError(f"{argument} must be a dotted path such as 'package.module.name', got {path!r}")
    segments = path.split(".")  # keys of a dict need not be identifiers
    has_spaces = path.split() != [path]
    if "" in segments or (has_spaces and segments != [segment.strip() for segment in segments]):
        raise ValueError(f"{argument}={path!r} is not a dotted path; write it as 'package.module.name'")
    return path


def locate(
    path: str, *, imports: bool = True, create: bool = False, executed: Collection[str] = ()
) -> Attribute:
    """The attribute that ``path`` names.

    Args:
        imports: may modules be imported for it, and a module's ``__getattr__`` be asked.
        create: accept a name that does not exist yet on an owner that does; a module's ``__getattr__`` is not asked.
        executed: with ``imports=False``, names of modules whose code has run although their import is not finished.

    Raises:
        TargetAbsent: no such module or no such attribute.
        TargetPending: with ``imports=False``, a module on the way is not imported yet.
        TargetError: anything else, such as a module whose import fails; the text has the cause.
    """
    module_name, _, name = path.rpartition(".")
    module = sys.modules.get(module_name)
    if type(module) is ModuleType:
        namespace = module.__dict__
        if name in namespace and (imports or not is_unfinished(module)):
            return ModuleAttribute(path, module, name, module_name, namespace)  # by far the commonest case
    if not module_name:
        raise TargetError(f"{path!r} names a module, not an attribute; write it as 'module.name'")
    parts = path.split(".")
    modules = list(_modules_along(parts, imports, executed))
    for depth, module in reversed(modules):
        module_name = ".".join(parts[:depth])
        if not imports and module_name not in executed and is_unfinished(module):
            raise TargetPending(f"waiting for the import of {module_name}")
        owner: Any = module
        for part in parts[depth:-1]:
            owner = _step(owner, part, imports)
            if owner is ABSENT:
                break
        else:
            attribute = attribute_of(path, owner, name, module_name)
            if imports and not create and attribute.read() is ABSENT and isinstance(owner, ModuleType):
                attribute = AnsweredAttribute(path, owner, name, module_name, _woken(owner, name))
            if attribute.read() is not ABSENT or (create and depth == modules[-1][0]):
                return attribute
            if is_class(owner) and name in (static_value(owner, "_member_map_") or ()):
                raise TargetError(f"{path} is a member of an Enum and cannot be replaced")
    raise TargetAbsent(f"target not found: {path}")


def _step(owner: Any, name: str, wake: bool) -> Any:
    """The object behind ``owner.name`` on the way to a target; ABSENT, or TargetError if only code could tell."""
    value = static_value(owner, name)
    if value is ABSENT and wake and isinstance(owner, ModuleType):
        value = _woken(owner, name)
    if isinstance(value, (staticmethod, classmethod)):
        return value.__func__
    if isinstance(value, (property, GetSetDescriptorType)) and not isinstance(owner, dict):
        raise TargetError(
            f"{name!r} of {describe(owner)} is a property; name what it returns by another path"
        )
    return value


def _woken(module: ModuleType, name: str) -> Any:
    """Let a module's own ``__getattr__`` (lazy re-exports) answer; its failure is a reason, not a crash."""
    try:
        return getattr(module, name)
    except AttributeError:
        return ABSENT
    except Exception as error:
        raise TargetError(f"reading {module.__name__}.{name} failed: {described_error(error)}") from error


def _modules_along(
    parts: list[str], imports: bool, executed: Collection[str] = ()
) -> Iterator[tuple[int, ModuleType]]:
    """``(number of segments, module)`` for every prefix of the path that is a module, shortest first."""
    parent: ModuleType | None = None
    for depth in range(1, len(parts)):
        name = ".".join(parts[:depth])
        module = sys.modules.get(name)
        if module is None:
            if parent is not None:
                namespace = module_dict(parent) or {}
                if parts[depth - 1] in namespace or "__path__" not in namespace:
                    return
            if imports:
                module = _imported(name)
            elif parent is None or _may_come(name, parent, executed):
                raise TargetPending(f"waiting for the import of {name}")
        if module is None:
            if parent is None:
                raise TargetAbsent(f"module not found: {name}")
            return
        yield depth, module
        parent = module


def _imported(name: str) -> ModuleType | None:
    """Import ``name``; None if there is no such module, TargetError with the cause if it is broken."""
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name == name:
            return None
        raise TargetError(f"importing {name} failed: {described_error(error)}") from error
    except (Exception, SystemExit) as error:
        raise TargetError(f"importing {name} failed: {described_error(error)}") from error
    return sys.modules.get(name)


def _may_come(name: str, parent: ModuleType, executed: Collection[str]) -> bool:
    """True if the submodule ``name`` of ``parent`` may be imported one day; nothing is imported to find out."""
    from importlib.util import find_spec

    if name.rpartition(".")[0] not in executed and is_unfinished(parent):
        return True
    try:
        return find_spec(name) is not None
    except Exception:
        return True


def is_unfinished(module: ModuleType) -> bool:
    """True while the module's code runs, and for a module of ``importlib.util.LazyLoader`` before its first use."""
    kind = type(module)
    if kind is not ModuleType and kind.__module__ == "importlib.util":
        return True
    spec = (module_dict(module) or {}).get("__spec__")
    return bool(getattr(spec, "_initializing", False))


def resolved_object(path: str) -> Any:
    """The object that ``path`` means as a replacement: import the longest module prefix, then plain attribute access.

    Raises:
        TargetError: naming what was not found, or with the cause of a failed import.
    """
    parts = path.split(".")
    try:
        modules = list(_modules_along([*parts, ""], imports=True))
    except TargetAbsent as error:
        raise TargetError(f"{path} was not found ({error})") from error
    missing = ""
    for depth, module in reversed(modules):
        found: Any = module
        for part in parts[depth:]:
            try:
                found = getattr(found, part)
            except AttributeError as error:
                missing = missing or described_error(error)
                break
        else:
            return found
    raise TargetError(f"{path} was not found ({missing})")
