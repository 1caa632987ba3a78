"""``with_imports``: names of libraries, lent to a function when it is first called.

A replacement for an operator of a library is written in a module that must import where the library is
absent::

    @with_imports("torch.nn.functional", ("torch", "Tensor"), "from mmcv.utils import ext_loader")
    def forward(self, x):
        return functional.relu(x)

The lent names are private to the function, as if its module had imported them and nobody else could see them.
The function stays the same object, with its name, signature, globals, closure and defaults: only its
``__code__`` is exchanged, first for one that imports, then for one that reads the imported names (see
:mod:`.function_code`). So nothing is left to pay on later calls, and pickling by reference, ``super()`` and
``torch.compile`` work as before. Only decorators among the specifications need a function around it.

Limits: ``eval``, ``globals()`` and ``torch.jit.script``, which read names from source text, do not see lent
names. ``torch.compile(fullgraph=True)`` cannot trace a first call: call :func:`lend` before, as ``apply()``
does for replacements.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import threading
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Callable, Iterable, Sequence, TypeVar, cast

from .function_code import forwarding_code, globals_read, plain_forwarding_code, rename_globals
from .import_specs import (
    DecoratorSpec,
    ExpressionDecorator,
    ImportSpec,
    LentName,
    check_no_name_twice,
    parse_decorators,
    parse_specs,
)

F = TypeVar("F")

#: Where a function keeps its :class:`LentImports` or :class:`LentDecorators`.
_ATTRIBUTE = "__lent_imports__"

_number = itertools.count(1)
_exchange_lock = threading.Lock()


def with_imports(*specs: ImportSpec, apply_decorators: Sequence[object] | None = None) -> Callable[[F], F]:
    """Lend imported names to a function; the imports happen at its first call.

    Args:
        specs: ``"pkg.mod"`` binds ``mod``; ``("mod", "attr")`` binds ``attr``; ``("mod", "attr", "alias")``
            binds ``alias``; an import statement as text binds what it would bind; ``"@expression"`` decorates
            the function with the expression, evaluated with the lent names and the module's globals.
            Decorators stand as in source: the first is the outermost.
        apply_decorators: ``("path", {arguments})`` each: the decorator is what calling ``path`` with the
            arguments gives. They stand below the ``"@expression"`` ones.

    Works below and above ``staticmethod``, ``classmethod`` and other decorators. Gives back the very object
    that it decorates, or, where there are decorators among the specifications, a function of the same name
    and signature.

    Raises:
        TypeError: a specification is of a wrong type, or what is decorated holds no Python function.
        ValueError: a specification is malformed, binds one name to two things, or lends a name that the
            function itself assigns as a global.

    The first call raises ImportError, which names module and name, where an import fails; nothing is changed
    then, and the next call tries again.
    """
    names, decorators = parse_specs(specs)
    return lending(names, decorators + parse_decorators(apply_decorators))


def lending(names: Sequence[LentName], decorators: Sequence[DecoratorSpec] = ()) -> Callable[[F], F]:
    """:func:`with_imports` for specifications that are parsed already. Raises what it raises."""
    check_no_name_twice(names)

    def decorate(decorated: F) -> F:
        function = _function_to_lend_to(decorated, names)
        if function is None or isinstance(decorated, (type, property)):
            raise TypeError(
                f"with_imports decorates functions, staticmethods and classmethods; {decorated!r} is a "
                f"{type(decorated).__name__}"
            )
        _lend_names_at_first_call(function, list(names))
        if not decorators:
            return decorated
        if isinstance(decorated, (staticmethod, classmethod)):
            inner = LentDecorators(decorated.__func__, function, decorators).outer
            return cast("F", type(decorated)(inner))
        return cast("F", LentDecorators(decorated, function, decorators).outer)

    return decorate


def lend(candidate: object) -> bool:
    """Lend now what ``with_imports`` would lend at the first call.

    ``candidate`` is a function, or a staticmethod, classmethod, property, method, wrapper or class around
    functions. True if a ``with_imports`` function was found in it, all of whose names are lent now. Raises
    ImportError as the first call would.
    """
    found = False
    for function in _functions_inside(candidate):
        lent = vars(function).get(_ATTRIBUTE)
        if isinstance(lent, (LentImports, LentDecorators)):
            lent.lend()
            found = True
    return found


def lend_all(candidates: Iterable[object]) -> list[tuple[object, ImportError]]:
    """:func:`lend` each. The failures come back, with their errors; the others are lent all the same."""
    failures: list[tuple[object, ImportError]] = []
    for candidate in candidates:
        try:
            lend(candidate)
        except ImportError as error:
            failures.append((candidate, error))
    return failures


class LentImports:
    """The names that one function is lent, and whether it has them. Kept on the function itself."""

    def __init__(self, function: FunctionType, code: CodeType, names: list[LentName]) -> None:
        prefix = f"_lent_{next(_number)}"
        self.function = function
        self.code = code  #: as the compiler made it
        self.names = names
        self.private_names = {lent.name: f"{prefix}_{lent.name}" for lent in names}
        self._renamed_code = rename_globals(code, self.private_names)
        self._lent = False
        first_call_code = forwarding_code(code, f"{prefix}()")
        function.__globals__[prefix] = self.lend
        setattr(function, _ATTRIBUTE, self)
        function.__code__ = first_call_code

    def lend(self) -> FunctionType:
        """Import, bind, and give back the function. No lock is held while foreign code runs."""
        if not self._lent:
            values = {self.private_names[lent.name]: _import(lent, self.function) for lent in self.names}
            self.function.__globals__.update(values)
            self.function.__code__ = self._renamed_code
            self._lent = True
        return self.function


class LentDecorators:
    """Decorators that a callable gets at its first call, and the function around it that applies them."""

    def __init__(
        self, decorated: object, function: FunctionType, decorators: Sequence[DecoratorSpec]
    ) -> None:
        self.decorated = decorated
        self._function = function  #: the function in ``decorated`` that holds the lent names
        self._decorators = decorators
        self._prefix = f"_lent_{next(_number)}"
        self._lent = False
        self.outer = self._make_outer()

    def _make_outer(self) -> FunctionType:
        import inspect

        function = self._function
        outer = FunctionType(
            plain_forwarding_code(function.__code__, f"{self._prefix}()"), function.__globals__
        )
        functools.update_wrapper(outer, cast("Callable[..., object]", self.decorated))
        del outer.__wrapped__  # type: ignore[attr-defined]  # torch.jit.script would compile what is wrapped
        outer.__signature__ = inspect.signature(self.decorated)  # type: ignore[attr-defined, arg-type]
        setattr(outer, _ATTRIBUTE, self)
        function.__globals__[self._prefix] = self.lend
        return outer

    def lend(self) -> Callable[..., object]:
        """Lend the names, apply the decorators, and give back the result. No lock is held meanwhile."""
        name = f"{self._prefix}_decorated"
        if not self._lent:
            lend(self._function)
            result = self._decorate()
            with _exchange_lock:
                if not self._lent:
                    self.outer.__globals__[name] = result
                    self.outer.__code__ = plain_forwarding_code(self._function.__code__, name)
                    self._lent = True
        return cast("Callable[..., object]", self.outer.__globals__[name])

    def _decorate(self) -> object:
        result = self.decorated
        for decorator in reversed(self._decorators):
            apply = self._evaluate(decorator)
            result = apply(result) if callable(apply) else apply
            if not callable(result):
                raise TypeError(
                    f"{_label(self._function)}: {decorator} gave {result!r}, which is not callable; "
                    f"with_imports can apply decorators that give functions"
                )
        return result

    def _evaluate(self, decorator: DecoratorSpec) -> object:
        private_names = cast("LentImports", vars(self._function)[_ATTRIBUTE]).private_names
        if isinstance(decorator, ExpressionDecorator):
            where = f"<@{decorator.expression} of {_label(self._function)}>"
            code = compile(decorator.expression, where, "eval", dont_inherit=True)
            return eval(rename_globals(code, private_names), self._function.__globals__)
        if decorator.path.partition(".")[0] in private_names:
            found = self._evaluate(ExpressionDecorator(decorator.path))
        else:
            module, _, attribute = decorator.path.rpartition(".")
            found = _import(LentName(attribute, module, attribute), self._function)
        if decorator.arguments is None:
            return found
        return cast("Callable[..., object]", found)(**decorator.arguments)


def _lend_names_at_first_call(function: FunctionType, names: list[LentName]) -> None:
    code = function.__code__
    earlier = vars(function).get(_ATTRIBUTE)
    if isinstance(earlier, LentImports) and earlier.function is function:
        from .events import patcher_logger

        patcher_logger.warning(
            f"{_label(function)}: with_imports is stacked on with_imports; this works, "
            f"but one with all the names says the same"
        )
        code, names = earlier.code, earlier.names + names
        check_no_name_twice(names)
    LentImports(function, code, names)


def _label(function: FunctionType) -> str:
    return f"{function.__module__}.{function.__qualname__}"


def _import(lent: LentName, function: FunctionType) -> object:
    """What ``lent`` binds. Whatever goes wrong is an ImportError that names function, module and name."""
    try:
        module = importlib.import_module(lent.module, function.__globals__.get("__package__"))
        if lent.bind_root:
            return importlib.import_module(lent.origin)
        return module if lent.attribute is None else _attribute_or_submodule(module, lent.attribute)
    except Exception as error:
        wanted = f"{lent.attribute!r} from {lent.module!r}" if lent.attribute else repr(lent.module)
        raise ImportError(
            f"{_label(function)}() cannot import {wanted}: {type(error).__name__}: {error}", name=lent.module
        ) from error


def _attribute_or_submodule(module: ModuleType, name: str) -> object:
    """What ``from module import name`` binds."""
    try:
        return getattr(module, name)
    except AttributeError:
        if not hasattr(module, "__path__"):
            raise
    return importlib.import_module(f"{module.__name__}.{name}")


def _inner(candidate: object) -> list[object]:
    """What a descriptor, method, partial or wrapper holds inside. Static: no foreign code runs."""
    if isinstance(candidate, (staticmethod, classmethod, MethodType)):
        return [candidate.__func__]
    if isinstance(candidate, property):
        return [candidate.fget, candidate.fset, candidate.fdel]
    if isinstance(candidate, functools.partial):
        return [candidate.func]
    try:
        attributes = object.__getattribute__(candidate, "__dict__")
    except AttributeError:
        return []
    lent = attributes.get(_ATTRIBUTE)
    return [lent.decorated] if isinstance(lent, LentDecorators) else [attributes.get("__wrapped__")]


def _functions_inside(candidate: object) -> list[FunctionType]:
    """The Python functions in ``candidate``, outermost first."""
    functions: list[FunctionType] = []
    waiting: list[object] = list(vars(candidate).values()) if isinstance(candidate, type) else [candidate]
    seen: set[int] = set()
    while waiting:
        found = waiting.pop(0)
        if id(found) in seen:
            continue
        seen.add(id(found))
        if isinstance(found, FunctionType):
            functions.append(found)
        waiting += _inner(found)
    return functions


def _function_to_lend_to(decorated: object, names: Sequence[LentName]) -> FunctionType | None:
    """The function in ``decorated`` that wants the names.

    Other decorators may stand between. A wrapper that they made knows its own module's names, so the first
    function that reads one of the names and does not have it is meant; ``functools.wraps(upstream)`` above a
    replacement does not lead to the upstream function.
    """
    wanted = {lent.name for lent in names}
    functions = _functions_inside(decorated)
    if len(functions) == 1:
        return functions[0]
    readers = [function for function in functions if wanted & _names_read(function)]
    lacking = [
        function for function in readers if wanted & _names_read(function) - function.__globals__.keys()
    ]
    return next(iter(lacking + readers + functions), None)


def _names_read(function: FunctionType) -> set[str]:
    lent = vars(function).get(_ATTRIBUTE)
    return globals_read(lent.code if isinstance(lent, LentImports) else function.__code__)
