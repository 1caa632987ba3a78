"""Dotted module names as arguments: checked before anything is done, with errors that name the argument."""

from __future__ import annotations


def checked_dotted_name(argument: str, value: object) -> str:
    """Give ``value`` back if it is an absolute dotted name such as ``"pkg.mod"``.

    Args:
        argument: what the caller calls the value; the error begins with it.

    Raises:
        TypeError: ``value`` is not a string.
        ValueError: it is empty, relative, or has a segment that is not an identifier.
    """
    if not isinstance(value, str):
        raise TypeError(f"{argument} must be a dotted name such as 'pkg.mod', got {value!r}")
    if not value:
        raise ValueError(f"{argument} is empty; give a dotted name such as 'pkg.mod'")
    for segment in value.split("."):
        if not segment.isidentifier():
            raise ValueError(f"{argument} {value!r} is not a dotted name: {segment!r} is not an identifier")
    return value


def checked_identifier(argument: str, value: object) -> str:
    """Give ``value`` back if it is one identifier; otherwise a TypeError or ValueError names ``argument``."""
    if not isinstance(value, str):
        raise TypeError(f"{argument} must be a name, got {value!r}")
    if not value.isidentifier():
        raise ValueError(f"{argument} {value!r} is not an identifier")
    return value


def is_within(fullname: str, package: str) -> bool:
    """True if ``fullname`` is ``package`` or lies below it."""
    return fullname == package or fullname.startswith(package + ".")
