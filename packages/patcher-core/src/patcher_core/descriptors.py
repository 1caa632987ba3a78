"""What was a staticmethod, classmethod, property or cached_property stays one when it is replaced."""

from __future__ import annotations

from functools import cached_property
from types import FunctionType
from typing import Any, Callable

_KINDS = (staticmethod, classmethod, property, cached_property)


def underlying(raw: Any) -> Any:
    """The function behind a descriptor of one of the four kinds; anything else as it is."""
    if type(raw) is FunctionType or not isinstance(raw, _KINDS):
        return raw
    if isinstance(raw, (staticmethod, classmethod)):
        return raw.__func__
    if isinstance(raw, property):
        return raw.fget
    if isinstance(raw, cached_property):
        return raw.func
    return raw


def same_kind(raw: Any, replacement: Any) -> Any:
    """``replacement`` as the kind of attribute that ``raw`` is.

    A descriptor given as the replacement is taken as it is, and so is everything that is not callable.
    """
    if type(raw) is FunctionType or not isinstance(raw, _KINDS):
        return replacement
    if isinstance(replacement, _KINDS) or not callable(replacement):
        return replacement
    if isinstance(raw, staticmethod):
        return staticmethod(replacement)
    if isinstance(raw, classmethod):
        return classmethod(replacement)
    if isinstance(raw, property) and isinstance(replacement, FunctionType):
        return property(replacement, raw.fset, raw.fdel, raw.__doc__)
    if isinstance(raw, cached_property) and isinstance(replacement, FunctionType):
        return _cached_property(replacement, raw)
    return replacement


def _cached_property(function: Callable[..., Any], like: cached_property[Any]) -> cached_property[Any]:
    made = cached_property(function)
    made.attrname = like.attrname
    return made
