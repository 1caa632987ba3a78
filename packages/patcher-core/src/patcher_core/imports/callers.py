"""What the code that calls a stub is doing: running a module or class body, or decorating a definition."""

from __future__ import annotations

import linecache
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

_FUNCTION_BODY = 0x1  # inspect.CO_OPTIMIZED; importing inspect costs more than this package

# How the line begins on which a decorator is applied. Before CPython 3.11 that is the line of the definition.
_APPLYING = ("@",) if sys.version_info >= (3, 11) else ("@", "def ", "async def ", "class ")


def is_module_or_class_body(frame: FrameType | None) -> bool:
    """True if ``frame`` runs a module or class body, or a comprehension right inside one."""
    while frame is not None:
        code = frame.f_code
        if not code.co_flags & _FUNCTION_BODY:
            return True
        if not code.co_name.startswith("<") or code.co_name == "<lambda>":
            return False
        frame = frame.f_back
    return False


def evaluates_decorator(frame: FrameType) -> bool:
    """True if the call that ``frame`` is making is (part of) a decorator in front of a definition."""
    line = _line(frame)
    return line.startswith("@") if line else _defines_in_same_statement(frame)


def applies_decorator(frame: FrameType | None) -> bool:
    """True if the call that ``frame`` is making hands a definition to its decorator."""
    return frame is not None and _line(frame).startswith(_APPLYING)


def _line(frame: FrameType) -> str:
    return linecache.getline(frame.f_code.co_filename, frame.f_lineno, frame.f_globals).lstrip()


def _defines_in_same_statement(frame: FrameType) -> bool:
    """The answer for code without source: a function or class is made before the result is stored or dropped."""
    import dis

    for instruction in dis.get_instructions(frame.f_code):
        if instruction.offset > frame.f_lasti:
            name = instruction.opname
            if name in ("MAKE_FUNCTION", "LOAD_BUILD_CLASS"):
                return True
            if name == "POP_TOP" or name.startswith(("STORE_", "RETURN_")) or "JUMP" in name:
                return False
    return False
