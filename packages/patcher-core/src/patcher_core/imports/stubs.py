"""Stubs: what a skipped module and everything inside it look like to the code that imports it.

A stub has to survive whatever a module body does with a name it imported: subclass it, annotate with it,
decorate with it, catch it. Only a class deriving from :class:`BaseException` may stand in an ``except``
clause, so every attribute of a skipped module is such a class; its metaclass makes it behave as if nothing
were there. A skipped *module* is a :class:`StubModule`, which behaves alike but cannot stand in an
``except`` clause.

Limits: a stub cannot be a base class beside a class whose metaclass is not :class:`abc.ABCMeta`, because
Python refuses to combine the two metaclasses.
"""

from __future__ import annotations

import abc
import importlib
import sys
import threading
import types
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, Any

from patcher_core.events import patcher_logger

from .callers import applies_decorator, evaluates_decorator, is_module_or_class_body
from .finder import finder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import FrameType

#: Version of every stub: lower than anything a library asks for, and readable for version parsers.
STUB_VERSION = "0.0.0"

# The attribute under which a stub keeps its SkippedName; a dunder, because every other name is a stub itself.
_SKIPPED_BY = "__skipped_by__"

_DEFINITIONS = (types.FunctionType, type, staticmethod, classmethod, property)

# Makes two threads that read one new attribute see the same stub. Reentrant, because a finalizer may run, and read
# a stub, whenever memory is allocated.
_new_attribute_lock = threading.RLock()


class SkippedModuleError(RuntimeError):
    """Something of a skipped module was called, and its skip_import said ``on_call="raise"``."""


class SkippedName:
    """What skip_import said about one name: the facts that a stub needs when it is called."""

    def __init__(self, name: str, on_call: str) -> None:
        self.name = name
        self.on_call = on_call
        self._reported: set[str] = set()

    def report_once(self, path: str, message: str) -> None:
        """Log ``message`` at WARNING, the first time for ``path``."""
        if path not in self._reported:
            self._reported.add(path)
            patcher_logger.warning(message)


def is_stub(value: object) -> bool:
    """True if ``value`` is a module or attribute that skip_import put in place of the real one."""
    return issubclass(type(value), (StubType, StubModule))


def skipped_by(stub: object) -> str:
    """The name given to skip_import that ``stub`` exists for; TypeError if it is no stub."""
    if not is_stub(stub):
        raise TypeError(f"{stub!r} is not a stub of a skipped module")
    skipped: SkippedName = vars(stub)[_SKIPPED_BY]
    return skipped.name


class StubType(abc.ABCMeta):
    """The class of every stub attribute; as an ABCMeta it lets a stub stand beside abstract base classes."""

    def __new__(
        mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], /, **keywords: Any
    ) -> Any:
        """Make a subclass of a stub: a class of the other bases only."""
        return _class_without_stubs(name, bases, namespace, keywords)

    @classmethod
    def __prepare__(mcls, name: str, bases: tuple[type, ...], /, **keywords: Any) -> Any:
        real, keywords = _real_bases(bases, keywords)
        return types.prepare_class(name, real, keywords)[1]

    def __getattribute__(cls, name: str) -> Any:
        if _is_dunder(name) or name == "_abc_impl":
            return super().__getattribute__(name)
        own = type.__getattribute__(cls, "__dict__")
        if name not in own:
            with _new_attribute_lock:
                if name not in own:
                    child = stub_attribute(cls.__module__, f"{cls.__qualname__}.{name}", own[_SKIPPED_BY])
                    type.__setattr__(cls, name, child)
        return own[name]

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return _called(cls, f"{cls.__module__}.{cls.__qualname__}", args, kwargs, sys._getframe().f_back)

    def __bool__(cls) -> bool:
        return False

    def __instancecheck__(cls, instance: object) -> bool:
        return False

    def __subclasscheck__(cls, subclass: type) -> bool:
        return False

    def __or__(cls, other: Any) -> Any:
        return _union(cls, cls, other)

    def __ror__(cls, other: Any) -> Any:
        return _union(cls, other, cls)

    def __repr__(cls) -> str:
        return f"<stub {cls.__module__}.{cls.__qualname__}: {skipped_by(cls)} is skipped>"


class StubModule(types.ModuleType):
    """A skipped module. Reading an attribute makes a stub for it and registers nothing in ``sys.modules``."""

    def __init__(self, name: str, skipped: SkippedName) -> None:
        super().__init__(name, f"Stub: {skipped.name} is skipped by skip_import.")
        vars(self).update({_SKIPPED_BY: skipped, "__version__": STUB_VERSION, "__all__": []})

    def __getattr__(self, name: str) -> Any:
        if _is_dunder(name):
            raise AttributeError(
                f"the stub of the skipped module {self.__name__!r} has no attribute {name!r}"
            )
        own = vars(self)
        if finder.is_declared(f"{self.__name__}.{name}", hidden=False):
            raise AttributeError(f"{self.__name__}.{name} is replaced by replace_import: import it first")
        with _new_attribute_lock:
            if name not in own:
                own[name] = stub_attribute(self.__name__, name, own[_SKIPPED_BY])
            return own[name]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _called(self, self.__name__, args, kwargs, sys._getframe().f_back)

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return ()

    def __bool__(self) -> bool:
        return False

    def __instancecheck__(self, instance: object) -> bool:
        return False

    def __subclasscheck__(self, subclass: type) -> bool:
        return False

    def __getitem__(self, parameters: Any) -> StubModule:
        return self

    # Python would fall back to __getitem__ for these two, and never come to an end.
    __iter__ = None
    __contains__ = None

    def __or__(self, other: Any) -> Any:
        return _union(self, self, other)

    def __ror__(self, other: Any) -> Any:
        return _union(self, other, self)

    def __copy__(self) -> StubModule:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> StubModule:
        return self

    def __reduce__(self) -> Any:
        return importlib.import_module, (self.__name__,)

    def __repr__(self) -> str:
        return f"<stub module {self.__name__!r}: {skipped_by(self)} is skipped>"


class StubLoader:
    """Loads the stub of one skipped module."""

    def __init__(self, skipped: SkippedName) -> None:
        self.skipped = skipped

    def create_module(self, spec: ModuleSpec) -> StubModule:
        return StubModule(spec.name, self.skipped)

    def exec_module(self, module: types.ModuleType) -> None:
        """A stub has no code to run."""


def stub_spec(fullname: str, loader: StubLoader) -> ModuleSpec:
    """The spec of a stub module. Each is a package, so that all its children can be imported."""
    return ModuleSpec(
        fullname,
        loader,  # type: ignore[arg-type]
        origin="skipped by skip_import",
        is_package=True,
    )


def stub_attribute(module: str, qualname: str, skipped: SkippedName) -> StubType:
    """The stub that stands for the attribute ``qualname`` (``"a.b"``, say) of the skipped ``module``."""
    namespace = {"__module__": module, "__qualname__": qualname, _SKIPPED_BY: skipped, "__doc__": None}
    return type.__new__(StubType, qualname.rpartition(".")[2], (_StubBase,), namespace)


_StubBase = type.__new__(
    StubType,
    "Stub",
    (Exception,),
    {
        "__module__": __name__,
        _SKIPPED_BY: SkippedName("nothing", "none"),
        "__version__": STUB_VERSION,
        "__class_getitem__": classmethod(lambda cls, parameters: cls),
    },
)


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _union(stub: Any, left: Any, right: Any) -> Any:
    """``left | right`` in an annotation, also before CPython 3.10; the stub itself if one is no type."""
    import typing

    try:
        return typing.Union[left, right]
    except TypeError:
        return stub


# ---------------------------------------------------------------------------------------------- subclassing
def _real_bases(
    bases: tuple[type, ...], keywords: Mapping[str, Any]
) -> tuple[tuple[type, ...], dict[str, Any]]:
    """``bases`` without stubs, and the class keywords, unless only a stub can be meant to take them."""
    real = tuple(base for base in bases if not isinstance(base, StubType))
    return real, dict(keywords) if any(_takes_class_keywords(base) for base in real) else {}


def _takes_class_keywords(base: type) -> bool:
    return type(base) is not type or any("__init_subclass__" in vars(each) for each in base.__mro__[:-1])


def _class_without_stubs(
    name: str, bases: tuple[type, ...], namespace: dict[str, Any], keywords: Mapping[str, Any]
) -> type:
    real, keywords = _real_bases(bases, keywords)
    if not real and any(base.__name__.endswith(("Error", "Exception", "Warning")) for base in bases):
        real = (Exception,)  # a program raises and catches its own subclass of a library's error
    abstract = any(getattr(value, "__isabstractmethod__", False) for value in namespace.values())
    metaclass = types.prepare_class(name, real, {"metaclass": abc.ABCMeta} if abstract else {})[0]
    made: type = metaclass(name, real, namespace, **keywords)
    return made


# ---------------------------------------------------------------------------------------------- being called
def _called(
    stub: Any, path: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], frame: FrameType | None
) -> Any:
    """The result of calling ``stub`` from ``frame`` (None: from no Python code, such as an exit handler)."""
    skipped: SkippedName = vars(stub)[_SKIPPED_BY]
    in_body = is_module_or_class_body(frame)
    decorating = frame is not None and not in_body and evaluates_decorator(frame)
    if len(args) == 1 and not kwargs and _can_be_decorated(args[0]):
        if in_body or decorating or applies_decorator(frame):
            return args[0]
        if isinstance(args[0], _DEFINITIONS) and not is_stub(args[0]):
            skipped.report_once(
                path, f"{_what_happened(path, skipped, frame)}: it returned its argument unchanged"
            )
            return args[0]
    if in_body or decorating:
        return stub
    advice = "Replace the caller, or give the name with replace_import"
    if skipped.on_call == "raise":
        raise SkippedModuleError(f"{_what_happened(path, skipped, frame)} with on_call='raise'. {advice}")
    skipped.report_once(path, f"{_what_happened(path, skipped, frame)}: it returned None. {advice}")
    return None


def _what_happened(path: str, skipped: SkippedName, frame: FrameType | None) -> str:
    place = "" if frame is None else f" in {frame.f_globals.get('__name__', '?')}.{frame.f_code.co_name}"
    return f"{path}() was called{place}, but {skipped.name} is skipped (skip_import)"


def _can_be_decorated(value: object) -> bool:
    return callable(value) or isinstance(value, _DEFINITIONS)
