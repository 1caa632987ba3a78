"""Will the callers that upstream has still fit the replacement?

Parameters are read from code objects, which is exact for Python functions and some twenty times faster than
:func:`inspect.signature`; what has no code object is asked of ``inspect``, and where that knows nothing
either, nothing is claimed.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

from .attributes import class_value

_VAR_POSITIONAL = 0x04
_VAR_KEYWORD = 0x08
_VARIADIC = _VAR_POSITIONAL | _VAR_KEYWORD


class Parameters:
    """The parameters of a callable.

    Attributes:
        positional: names of the parameters that can be given by position, in order.
        positional_only: how many of them cannot be given by keyword.
        defaults: the default values of the last of them.
        keyword_only: names of keyword-only parameters, in order.
        keyword_defaults: their default values, by name.
        var_positional, var_keyword: name of ``*args`` and ``**kwargs``, or None.
    """

    __slots__ = (
        "defaults",
        "keyword_defaults",
        "keyword_only",
        "positional",
        "positional_only",
        "var_keyword",
        "var_positional",
    )

    def __init__(
        self,
        positional: tuple[str, ...],
        positional_only: int,
        defaults: tuple[Any, ...],
        keyword_only: tuple[str, ...],
        keyword_defaults: dict[str, Any],
        var_positional: str | None,
        var_keyword: str | None,
    ) -> None:
        self.positional = positional
        self.positional_only = positional_only
        self.defaults = defaults
        self.keyword_only = keyword_only
        self.keyword_defaults = keyword_defaults
        self.var_positional = var_positional
        self.var_keyword = var_keyword

    @property
    def names(self) -> tuple[Any, ...]:
        """Names and kinds of all parameters, without their defaults."""
        return (
            self.positional,
            self.positional_only,
            self.keyword_only,
            self.var_positional,
            self.var_keyword,
        )

    @property
    def required(self) -> int:
        """How many positional parameters have no default."""
        return len(self.positional) - len(self.defaults)

    @property
    def is_opaque(self) -> bool:
        """True for ``(*args, **kwargs)``: it says nothing about what callers pass."""
        return bool(
            self.var_positional and self.var_keyword and not self.positional and not self.keyword_only
        )

    def agrees_with(self, other: Parameters) -> bool:
        """True where names, kinds and defaults are the same; defaults are compared by identity or as literals."""
        return (
            self.names == other.names
            and len(self.defaults) == len(other.defaults)
            and all(map(_same_value, self.defaults, other.defaults))
            and self.keyword_defaults.keys() == other.keyword_defaults.keys()
            and all(
                _same_value(self.keyword_defaults[k], other.keyword_defaults[k])
                for k in self.keyword_defaults
            )
        )


def _same_value(left: Any, right: Any) -> bool:
    literals = (int, float, str, bytes, type(None))
    return left is right or (type(left) is type(right) and isinstance(left, literals) and left == right)


def parameters(function: Any) -> Parameters | None:
    """The parameters of ``function``; of a class those of constructing it; None where nobody knows."""
    if isinstance(function, type):
        return _of_class(function)
    while isinstance(function, FunctionType) and "__signature__" not in function.__dict__:
        wrapped = function.__dict__.get("__wrapped__")
        if wrapped is None:
            return _of_code(function)
        function = wrapped
    return _of_inspect(function)


def _of_code(function: FunctionType) -> Parameters:
    code = function.__code__
    count, only = code.co_argcount, code.co_kwonlyargcount
    names = code.co_varnames
    rest = iter(names[count + only :])
    return Parameters(
        names[:count],
        code.co_posonlyargcount,
        function.__defaults__ or (),
        names[count : count + only],
        function.__kwdefaults__ or {},
        next(rest) if code.co_flags & _VAR_POSITIONAL else None,
        next(rest) if code.co_flags & _VAR_KEYWORD else None,
    )


def _of_class(cls: type) -> Parameters | None:
    """Parameters of ``cls.__init__`` without ``self``, where that is a Python function that decides alone."""
    initializer = class_value(cls, "__init__")
    if class_value(type(cls), "__call__") is not class_value(type, "__call__"):
        return None
    if class_value(cls, "__new__") is not class_value(object, "__new__"):
        return None
    found = parameters(initializer) if isinstance(initializer, FunctionType) else None
    if found is None or not found.positional:
        return None
    names = found.positional[1:]
    return Parameters(
        names,
        max(found.positional_only - 1, 0),
        found.defaults[-len(names) :] if names else (),
        found.keyword_only,
        found.keyword_defaults,
        found.var_positional,
        found.var_keyword,
    )


def _of_inspect(function: Any) -> Parameters | None:
    import inspect

    try:
        listed = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    kinds = inspect.Parameter
    positional = [p for p in listed if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
    keyword = [p for p in listed if p.kind is kinds.KEYWORD_ONLY]
    return Parameters(
        tuple(p.name for p in positional),
        sum(p.kind is kinds.POSITIONAL_ONLY for p in positional),
        tuple(p.default for p in positional if p.default is not kinds.empty),
        tuple(p.name for p in keyword),
        {p.name: p.default for p in keyword if p.default is not kinds.empty},
        next((p.name for p in listed if p.kind is kinds.VAR_POSITIONAL), None),
        next((p.name for p in listed if p.kind is kinds.VAR_KEYWORD), None),
    )


def misfit(original: Any, replacement: Any, *, bound: bool = False) -> str:
    """Why a call that fits ``original`` may not fit ``replacement``; "" where every such call does.

    Args:
        bound: the first parameter is ``self`` or ``cls``, whose name does not matter.
    """
    if are_alike(original, replacement):
        return ""
    old, new = parameters(original), parameters(replacement)
    if old is None or new is None or old.is_opaque or new.is_opaque:
        return ""
    problems = [*_missing_names(old, new, bound), *_new_requirements(old, new)]
    return "; ".join(problems)


def are_alike(original: Any, replacement: Any) -> bool:
    """True where a glance shows two Python functions with the same parameters; False says nothing."""
    if not (type(original) is type(replacement) is FunctionType):
        return False
    old, new = original.__code__, replacement.__code__
    count = old.co_argcount
    return (
        count == new.co_argcount
        and old.co_varnames[:count] == new.co_varnames[:count]
        and old.co_posonlyargcount == new.co_posonlyargcount
        and not (old.co_kwonlyargcount or new.co_kwonlyargcount)
        and not (old.co_flags | new.co_flags) & _VARIADIC
        and len(original.__defaults__ or ()) == len(replacement.__defaults__ or ())
        and not (original.__dict__ or replacement.__dict__)
    )


def _missing_names(old: Parameters, new: Parameters, bound: bool) -> list[str]:
    """What callers of ``old`` may pass and ``new`` does not take."""
    problems = []
    by_keyword = {*new.positional[new.positional_only :], *new.keyword_only}
    for index, name in enumerate(old.positional):
        if bound and index == 0:
            continue
        if index < len(new.positional):
            if new.positional[index] == name or index < old.positional_only:
                continue
            if name in by_keyword:
                problems.append(f"parameter {name!r} has moved; in its place is {new.positional[index]!r}")
            elif not new.var_keyword:
                problems.append(f"parameter {name!r} is not taken; in its place is {new.positional[index]!r}")
        elif not new.var_positional:
            if index < old.positional_only or not (new.var_keyword or name in by_keyword):
                problems.append(f"parameter {name!r} is not taken")
            else:
                problems.append(f"parameter {name!r} is not taken by position")
        elif index >= old.positional_only and not (new.var_keyword or name in by_keyword):
            problems.append(f"parameter {name!r} is not taken by keyword")
    if not new.var_keyword:
        problems += [
            f"parameter {name!r} is not taken" for name in old.keyword_only if name not in by_keyword
        ]
        if old.var_keyword:
            problems.append(f"further keywords (**{old.var_keyword}) are not taken")
    if old.var_positional and not new.var_positional:
        problems.append(f"further positions (*{old.var_positional}) are not taken")
    return problems


def _new_requirements(old: Parameters, new: Parameters) -> list[str]:
    """What ``new`` demands and callers of ``old`` need not pass."""
    missing = [name for index, name in enumerate(new.positional[: new.required]) if index >= old.required]
    missing += [
        name
        for name in new.keyword_only
        if name not in new.keyword_defaults and (name not in old.keyword_only or name in old.keyword_defaults)
    ]
    return [f"parameter {name!r} is required" for name in missing]
