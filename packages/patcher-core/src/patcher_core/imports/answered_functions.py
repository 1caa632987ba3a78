"""Functions of the standard library whose calls are answered here for a while, in every copy of them.

The function object stays the same: only its code object is exchanged. A copy taken with ``from importlib.util
import find_spec``, held by a closure or bound with ``functools.partial`` is that same object, so no copy
needs to be searched for, and putting the code object back undoes all of them at once.
"""

from __future__ import annotations

import importlib
import sys
import threading
import types
from typing import TYPE_CHECKING, Any, Mapping

from patcher_core.events import patcher_logger

if TYPE_CHECKING:
    from collections.abc import Callable


def _template(name, package=None):  # type: ignore[no-untyped-def]
    answer: Any = "the answer"
    return answer(name, package)


class AnsweredFunction:
    """A pure Python function ``(name, package=None)``, whose calls go to ``answer`` while it is active.

    ``answer(name, package, importer)`` also gets the globals of whoever called the function.
    """

    def __init__(
        self, module: str, name: str, answer: Callable[[str, str | None, Mapping[str, Any]], Any]
    ) -> None:
        self._module = module
        self._name = name
        self._answer = answer
        self._function: types.FunctionType | None = None
        self._code: types.CodeType | None = None
        self._original: types.FunctionType | None = None
        self._lock = threading.RLock()

    def activate(self) -> None:
        """Let calls go to the answer; a WARNING if something that is not a plain function is in the way."""
        function = getattr(importlib.import_module(self._module), self._name)
        with self._lock:
            if self._function is not None and self._function.__code__ is self._code:
                return
            if isinstance(function, types.FunctionType):
                self._exchange_code(function)
                return
        patcher_logger.warning(
            f"{self._module}.{self._name} has been replaced by {function!r}, so it does not know what is skipped; "
            f"declare skip_import before that replacement"
        )

    def deactivate(self) -> None:
        """Put the code object back, unless somebody else exchanged it meanwhile."""
        with self._lock:
            function, original = self._function, self._original
            if function is not None and original is not None and function.__code__ is self._code:
                function.__code__ = original.__code__
                self._function = None

    def call_original(self, name: str, package: str | None) -> Any:
        """What the function would have said."""
        assert self._original is not None
        return self._original(name, package)

    def _exchange_code(self, function: types.FunctionType) -> None:
        code = function.__code__
        self._original = _copy_of(function)
        template = _template.__code__
        self._code = template.replace(
            co_consts=tuple(self._call if each == "the answer" else each for each in template.co_consts),
            co_freevars=code.co_freevars,  # the closure stays, so its variables have to be declared
            co_filename=code.co_filename,  # compilers decide by the file what they look into
            co_firstlineno=code.co_firstlineno,
        )
        self._function = function
        function.__code__ = self._code

    def _call(self, name: str, package: str | None) -> Any:
        function_frame = sys._getframe().f_back
        caller = None if function_frame is None else function_frame.f_back
        return self._answer(name, package, {} if caller is None else caller.f_globals)


def _copy_of(function: types.FunctionType) -> types.FunctionType:
    copy = types.FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy
