"""A dotted path → the attribute it names; every read and write of a foreign attribute goes through here.

A path means what an import followed by attribute access would reach: ``package.module.Class.method``, a key of a
dict reached by attributes (``mmengine.registry.MODELS._module_dict.SubMConv3d``), a name that a package
re-exports. Lookups are static: they read ``__dict__`` along the MRO and never run a property or another descriptor.
Only for a target that the user named, in an eager apply, a module's ``__getattr__`` may answer.
"""

from __future__ import annotations

import importlib
import re
import sys
from types import GetSetDescriptorType, MemberDescriptorType, ModuleType
from typing import TYPE_CHECKING, Any, Collection, Iterator, Mapping

from .results import PatchStatus

if TYPE_CHECKING:
    from typing import TypeGuard


class _Absent:
    """The value of an attribute that does not exist."""

    def __repr__(self) -> str:
        return "ABSENT"

    def __bool__(self) -> bool:
        return False


ABSENT: Any = _Absent()

#: Segments without blanks at either end; keys of a dict need not be identifiers.
_DOTTED_PATH = re.compile(r"[^\s.](?:[^.]*[^\s.])?(?:\.[^\s.](?:[^.]*[^\s.])?)*")


class TargetError(Exception):
    """A target cannot be used; ``status`` says how that is reported."""

    status = PatchStatus.FAILED


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
    if _DOTTED_PATH.fullmatch(path) is None:
        raise ValueError(f"{argument}={path!r} is not a dotted path; write it as 'package.module.name'")
    return path


# ---------------------------------------------------------------- static lookups
_class_dict = type.__dict__["__dict__"].__get__
_class_mro = type.__dict__["__mro__"].__get__
_namespace_of = object.__getattribute__


def module_dict(module: object) -> dict[str, Any] | None:
    """The ``__dict__`` of something in ``sys.modules``, without waking a lazy module; None if it has none."""
    try:
        namespace = _namespace_of(module, "__dict__")
    except AttributeError:
        return None
    return namespace if isinstance(namespace, dict) else None


def _instance_value(owner: object, name: str) -> Any:
    """What is stored in ``owner`` itself: its ``__dict__`` or a slot; ABSENT otherwise."""
    namespace = module_dict(owner)
    if namespace is not None and name in namespace:
        return namespace[name]
    slot = class_value(type(owner), name)
    if isinstance(slot, MemberDescriptorType):
        try:
            return slot.__get__(owner, type(owner))
        except AttributeError:
            return ABSENT
    return ABSENT


def class_value(cls: type, name: str) -> Any:
    """The raw value of ``name`` along the MRO of ``cls``; ABSENT where no class defines it."""
    for base in _class_mro(cls):
        namespace = _class_dict(base)
        if name in namespace:
            return namespace[name]
    return ABSENT


def is_class(value: object) -> TypeGuard[type]:
    """Whether ``value`` itself is a class; to isinstance(), ``list[int]`` is one on CPython 3.9 and 3.10."""
    return issubclass(type(value), type)


def own_namespace(owner: Any) -> Mapping[str, Any]:
    """What ``owner`` itself holds, by name: a class's or module's ``__dict__``, or the dict that ``owner`` is."""
    if is_class(owner):
        return _class_dict(owner)  # type: ignore[no-any-return]
    return owner if isinstance(owner, dict) else (module_dict(owner) or {})


def static_value(owner: Any, name: str) -> Any:
    """The raw value that attribute access would start from: own, else inherited; ABSENT if there is none."""
    return attribute_of("", owner, name, "").read()


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


def described_error(error: BaseException) -> str:
    """``Type: text`` of an error, with the cause that it was raised from."""
    text = f"{type(error).__name__}: {error}"
    cause = error.__cause__
    return f"{text} (caused by {described_error(cause)})" if cause is not None else text


def describe(owner: object) -> str:
    """A short name of an owner for messages."""
    if isinstance(owner, ModuleType):
        return f"module {(module_dict(owner) or {}).get('__name__', '?')}"
    if is_class(owner):
        return f"class {owner.__module__}.{owner.__qualname__}"
    return f"a {type(owner).__name__}"


# ---------------------------------------------------------------- attributes
class Attribute:
    """One attribute of an instance, and the base of those of modules, classes and dicts.

    Attributes:
        path: the dotted path that led here.
        module_name: name of the module that the path went through last.
        owner, name: where the value is stored.
    """

    __slots__ = ("module_name", "name", "owner", "path")

    def __init__(self, path: str, owner: Any, name: str, module_name: str) -> None:
        self.path = path
        self.owner = owner
        self.name = name
        self.module_name = module_name

    @property
    def key(self) -> tuple[int, str]:
        """What identifies the place, whatever path led to it."""
        return (id(self.owner), self.name)

    def own(self) -> Any:
        """The raw value stored in the owner itself, or ABSENT."""
        return _instance_value(self.owner, self.name)

    def read(self) -> Any:
        """The raw value, own or inherited or answered by a module's ``__getattr__``; ABSENT if there is none."""
        own = self.own()
        return class_value(type(self.owner), self.name) if own is ABSENT else own

    def write(self, value: Any) -> None:
        """Store ``value``; TargetError if the owner refuses."""
        try:
            self._store(value)
        except Exception as error:
            raise TargetError(
                f"{self.path} cannot be replaced: {describe(self.owner)} refuses it ({described_error(error)})"
            ) from error

    def put_back(self, own: Any) -> None:
        """Store what :meth:`own` once returned: the very object, or nothing where there was nothing."""
        if own is not ABSENT:
            self.write(own)
        elif self.own() is not ABSENT:
            try:
                self._remove()
            except Exception as error:
                raise TargetError(
                    f"{self.path} cannot be removed: {describe(self.owner)} refuses it ({described_error(error)})"
                ) from error

    def _store(self, value: Any) -> None:
        setattr(self.owner, self.name, value)

    def _remove(self) -> None:
        delattr(self.owner, self.name)


class ModuleAttribute(Attribute):
    """An attribute of a module; ``answered`` is what the module's ``__getattr__`` gave for a name it lacks."""

    __slots__ = ("_answered",)

    def __init__(self, path: str, owner: Any, name: str, module_name: str, answered: Any = ABSENT) -> None:
        super().__init__(path, owner, name, module_name)
        self._answered = answered

    def own(self) -> Any:
        return _namespace_of(self.owner, "__dict__").get(self.name, ABSENT)

    def read(self) -> Any:
        return _namespace_of(self.owner, "__dict__").get(self.name, self._answered)


class ClassAttribute(Attribute):
    """An attribute of a class, its own or inherited."""

    __slots__ = ()

    def own(self) -> Any:
        return _class_dict(self.owner).get(self.name, ABSENT)

    def read(self) -> Any:
        return class_value(self.owner, self.name)


class KeyAttribute(Attribute):
    """A key of a dict."""

    __slots__ = ()

    def own(self) -> Any:
        return dict.get(self.owner, self.name, ABSENT)

    def read(self) -> Any:
        return self.own()

    def _store(self, value: Any) -> None:
        self.owner[self.name] = value

    def _remove(self) -> None:
        del self.owner[self.name]


def attribute_of(path: str, owner: Any, name: str, module_name: str) -> Attribute:
    """The attribute ``name`` of ``owner``, of the kind that ``owner`` is."""
    if isinstance(owner, ModuleType):
        return ModuleAttribute(path, owner, name, module_name)
    if is_class(owner):
        return ClassAttribute(path, owner, name, module_name)
    return (KeyAttribute if isinstance(owner, dict) else Attribute)(path, owner, name, module_name)


# ---------------------------------------------------------------- from a path to an attribute
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
    if type(module) is ModuleType and name in module.__dict__ and (imports or not is_unfinished(module)):
        return ModuleAttribute(path, module, name, module_name)  # by far the commonest case
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
                attribute = ModuleAttribute(path, owner, name, module_name, _woken(owner, name))
            if attribute.read() is not ABSENT or (create and depth == modules[-1][0]):
                return attribute
            if is_class(owner) and name in (static_value(owner, "_member_map_") or ()):
                raise TargetError(f"{path} is a member of an Enum and cannot be replaced")
    raise TargetAbsent(f"target not found: {path}")


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
    spec = _namespace_of(module, "__dict__").get("__spec__")
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
