"""An attribute of a module, class, instance or dict: its raw value, read without running any code, and written.

Every read and write of a foreign attribute goes through here. Reads follow ``__dict__`` along the MRO and never run a
property or another descriptor, nor a module's ``__getattr__``.
"""

from __future__ import annotations

import sys
from types import FunctionType, MemberDescriptorType, ModuleType
from typing import TYPE_CHECKING, Any, Mapping

from .results import PatchStatus, described_error

if TYPE_CHECKING:
    from typing import TypeGuard

    from .journal import Layer


class _Absent:
    """The value of an attribute that does not exist."""

    def __repr__(self) -> str:
        return "ABSENT"

    def __bool__(self) -> bool:
        return False


ABSENT: Any = _Absent()


class TargetError(Exception):
    """A target cannot be used; ``status`` says how that is reported."""

    status = PatchStatus.FAILED


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
        namespace: what the owner itself holds, by name; a view, never a copy.
        layers: what patches wrote here, the present value last; kept by the journal, as is what follows.
        base, base_own: once it is patched, what attribute access started from before, and what the owner itself held.
        copies: the references elsewhere that follow it: module and namespace by ``(module name, name)``.
    """

    __slots__ = (
        "_module_spec",
        "base",
        "base_own",
        "copies",
        "layers",
        "module_name",
        "name",
        "namespace",
        "owner",
        "path",
    )

    layers: list[Layer]
    copies: dict[tuple[str, str], tuple[Any, dict[str, Any]]] | None

    def __init__(
        self, path: str, owner: Any, name: str, module_name: str, namespace: Mapping[str, Any]
    ) -> None:
        self.path = path
        self.owner = owner
        self.name = name
        self.module_name = module_name
        self.namespace = namespace
        self.layers = []
        self.copies = None

    def own(self) -> Any:
        """The raw value stored in the owner itself, or ABSENT."""
        return _instance_value(self.owner, self.name)

    def read(self) -> Any:
        """The raw value, own or inherited or answered by a module's ``__getattr__``; ABSENT if there is none."""
        own = self.own()
        return class_value(type(self.owner), self.name) if own is ABSENT else own

    def write(self, value: Any) -> None:
        """Store ``value``; TargetError if the owner refuses, or if the write could not be undone."""
        if type(self.owner) is not ModuleType and self._is_kept_by_code():
            raise TargetError(
                f"{self.path} cannot be replaced: {describe(self.owner)} keeps it by code of its own"
                " (a property or another descriptor), so the write could not be undone; set it in the program"
            )
        try:
            setattr(self.owner, self.name, value)
        except Exception as error:
            raise self._refusal("replaced", error) from error

    def _is_kept_by_code(self) -> bool:
        """Whether a write runs a descriptor of the owner's class that puts the value somewhere else."""
        if type(self.owner) is type or self.name in self.namespace:
            return False
        descriptor = class_value(type(self.owner), self.name)
        if descriptor is ABSENT or isinstance(descriptor, MemberDescriptorType):
            return False
        is_of_every_class = is_class(self.owner) and descriptor is class_value(type, self.name)
        return class_value(type(descriptor), "__set__") is not ABSENT and not is_of_every_class

    def put_back(self, own: Any) -> None:
        """Store what :meth:`own` once returned: the very object, or nothing where there was nothing."""
        if own is not ABSENT:
            self.write(own)
        elif self.own() is not ABSENT:
            try:
                self._remove()
            except Exception as error:
                raise self._refusal("removed", error) from error

    def _remove(self) -> None:
        delattr(self.owner, self.name)

    def _refusal(self, done: str, error: Exception) -> TargetError:
        owner = describe(self.owner)
        return TargetError(f"{self.path} cannot be {done}: {owner} refuses it ({described_error(error)})")

    # ------------------------------------------------------------ once it is patched
    def start_over(self) -> None:
        """The module was reloaded: what it holds now is the original, and the copies go on following it."""
        self.layers.clear()
        self.take_as_base()

    def take_as_base(self) -> Any:
        """What the attribute holds now is the original; gives it back."""
        own = self.base_own = self.own()
        base = self.base = self._inherited() if own is ABSENT else own
        self._module_spec = _spec_of(self.module_name)
        return base

    def _inherited(self) -> Any:
        """What the owner has without holding it itself; of an instance its method, bound as a call finds it."""
        value = self.read()
        if type(self) is Attribute and isinstance(value, (FunctionType, classmethod, staticmethod)):
            return value.__get__(self.owner, type(self.owner))
        return value

    @property
    def top(self) -> Any:
        """The raw value that the uppermost layer left, or the original."""
        return self.layers[-1].new if self.layers else self.base

    @property
    def top_own(self) -> Any:
        """The same, but ABSENT where the original is inherited and not the owner's own."""
        return self.layers[-1].new if self.layers else self.base_own

    @property
    def was_reloaded(self) -> bool:
        """True if the module was executed again: ``importlib.reload`` gives it a new ``__spec__``."""
        return _spec_of(self.module_name) is not self._module_spec


def _spec_of(module_name: str) -> Any:
    module = sys.modules.get(module_name)
    namespace = module.__dict__ if type(module) is ModuleType else module_dict(module)
    return None if namespace is None else namespace.get("__spec__")


class ModuleAttribute(Attribute):
    """An attribute of a module."""

    __slots__ = ()

    def own(self) -> Any:
        return self.namespace.get(self.name, ABSENT)

    def read(self) -> Any:
        return self.namespace.get(self.name, ABSENT)


class AnsweredAttribute(ModuleAttribute):
    """A name that a module lacks and its ``__getattr__`` answered, with ``answer``."""

    __slots__ = ("answer",)

    def __init__(self, path: str, owner: Any, name: str, module_name: str, answer: Any) -> None:
        super().__init__(path, owner, name, module_name, own_namespace(owner))
        self.answer = answer

    def read(self) -> Any:
        return self.namespace.get(self.name, self.answer)


class ClassAttribute(Attribute):
    """An attribute of a class, its own or inherited."""

    __slots__ = ()

    def own(self) -> Any:
        return self.namespace.get(self.name, ABSENT)

    def read(self) -> Any:
        return class_value(self.owner, self.name)


class KeyAttribute(Attribute):
    """A key of a dict."""

    __slots__ = ()

    def own(self) -> Any:
        return dict.get(self.owner, self.name, ABSENT)

    def read(self) -> Any:
        return self.own()

    def write(self, value: Any) -> None:
        try:
            self.owner[self.name] = value
        except Exception as error:
            raise self._refusal("replaced", error) from error

    def _remove(self) -> None:
        del self.owner[self.name]


def attribute_of(path: str, owner: Any, name: str, module_name: str) -> Attribute:
    """The attribute ``name`` of ``owner``, of the kind that ``owner`` is."""
    if isinstance(owner, ModuleType):
        kind: type[Attribute] = ModuleAttribute
    elif is_class(owner):
        kind = ClassAttribute
    else:
        kind = KeyAttribute if isinstance(owner, dict) else Attribute
    return kind(path, owner, name, module_name, own_namespace(owner))
