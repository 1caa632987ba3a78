"""Code objects for lent imports: the same function, reading some of its global names under other names.

Nothing here needs source text. A function keeps its identity, globals, closure and defaults when only its
``__code__`` is exchanged, so two code objects suffice:

* :func:`rename_globals` gives code that reads a private global where the original read a lent name;
* :func:`forwarding_code` gives code with the original's signature that passes its arguments on to another
  callable. It stands in until the lent names are there.

Both work on CPython 3.8 to 3.13. Jumps, exception tables and line tables stay as the compiler wrote them,
since no instruction is added or removed.
"""

from __future__ import annotations

import sys
import textwrap
from typing import TYPE_CHECKING, Iterator, Mapping, NamedTuple, cast

if TYPE_CHECKING:
    from dis import Instruction
    from types import CodeType, FunctionType

_GLOBAL_READS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
_GLOBAL_WRITES = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL"})
_CLASS_BODY_WRITES = frozenset({"STORE_NAME", "DELETE_NAME"})

# Bits of ``co_flags`` (module ``inspect`` names them, and is too slow to import for it).
_VARIABLE_POSITIONAL = 0x04
_VARIABLE_KEYWORD = 0x08
_GENERATOR = 0x20
_COROUTINE = 0x80
_ITERABLE_COROUTINE = 0x100
_ASYNC_GENERATOR = 0x200

# How a function of each kind hands over to another of its kind. The asynchronous generator passes on what is
# sent and thrown, as ``yield from`` does for a plain one.
_HAND_OVER = """\
return {call}
"""
_HAND_OVER_GENERATOR = """\
return (yield from {call})
"""
_HAND_OVER_COROUTINE = """\
return await {call}
"""
HAND_OVER_ASYNC_GENERATOR = """\
_lent_stream = {call}
_lent_step = _lent_stream.asend(None)
while True:
    try:
        _lent_item = await _lent_step
    except StopAsyncIteration:
        return
    try:
        _lent_step = _lent_stream.asend((yield _lent_item))
    except GeneratorExit:
        await _lent_stream.aclose()
        raise
    except BaseException as _lent_error:
        _lent_step = _lent_stream.athrow(_lent_error)
"""


class _NameUse(NamedTuple):
    """How one code object uses its names. Nested code objects are not looked into."""

    global_reads: dict[str, list[Instruction]]
    global_writes: frozenset[str]
    class_body_writes: frozenset[str]
    other: frozenset[str]  #: attributes and imports, which share the table of names with the globals


_NO_NAME_USE = _NameUse({}, frozenset(), frozenset(), frozenset())


def _name_use(code: CodeType) -> _NameUse:
    import dis

    reads: dict[str, list[Instruction]] = {}
    writes: set[str] = set()
    class_body_writes: set[str] = set()
    other: set[str] = set()
    for instruction in dis.get_instructions(code):
        if instruction.opcode not in dis.hasname:
            continue
        if instruction.opname in _GLOBAL_READS:
            reads.setdefault(instruction.argval, []).append(instruction)
        elif instruction.opname in _GLOBAL_WRITES:
            writes.add(instruction.argval)
        elif instruction.opname in _CLASS_BODY_WRITES:
            class_body_writes.add(instruction.argval)
        else:
            other.add(instruction.argval)
    return _NameUse(reads, frozenset(writes), frozenset(class_body_writes), frozenset(other))


def _nested(code: CodeType) -> Iterator[CodeType]:
    return (constant for constant in code.co_consts if isinstance(constant, type(code)))


def globals_read(code: CodeType) -> set[str]:
    """The names that ``code``, or a function or class body inside it, reads as globals (or builtins)."""
    return set(_name_use(code).global_reads).union(*map(globals_read, _nested(code)))


def rename_globals(code: CodeType, private_names: Mapping[str, str]) -> CodeType:
    """``code`` reading the global ``private_names[name]`` wherever it read the global ``name``.

    Nested functions, lambdas, comprehensions and class bodies are renamed too. Local variables, closure
    variables and attributes of the same name are other things and stay.

    Raises ValueError where a lent name could not be told from one that the code itself assigns: in a
    ``global`` statement, or in the body of a nested class.
    """
    lent = private_names.keys()
    use = _name_use(code) if lent & set(code.co_names) else _NO_NAME_USE
    for name in sorted(lent & use.global_writes):
        raise ValueError(
            f"{code.co_name}() assigns {name!r} as a global, so it cannot be lent; lend it under an alias"
        )
    for name in sorted(lent & use.class_body_writes & use.global_reads.keys()):
        raise ValueError(
            f"class {code.co_name} (line {code.co_firstlineno}) both assigns and reads {name!r}, "
            f"so it cannot be lent; lend it under an alias"
        )
    names = list(code.co_names)
    bytecode = bytearray(code.co_code)
    for name in sorted(lent & use.global_reads.keys()):
        if name in use.other:
            _redirect(bytecode, use.global_reads[name], len(names), code)
            names.append(private_names[name])
        else:
            names[names.index(name)] = private_names[name]
    constants = tuple(
        rename_globals(constant, private_names) if isinstance(constant, type(code)) else constant
        for constant in code.co_consts
    )
    return code.replace(co_names=tuple(names), co_code=bytes(bytecode), co_consts=constants)


def _redirect(bytecode: bytearray, instructions: list[Instruction], new_index: int, code: CodeType) -> None:
    """Point ``instructions`` at entry ``new_index`` of the table of names, in place."""
    import dis

    for instruction in instructions:
        # Since CPython 3.11 the lowest bit of LOAD_GLOBAL's argument says whether a NULL is pushed as well.
        flag_bits = 1 if instruction.opname == "LOAD_GLOBAL" and sys.version_info >= (3, 11) else 0
        argument = (new_index << flag_bits) | ((instruction.arg or 0) & flag_bits)
        position = instruction.offset
        bytecode[position + 1] = argument & 0xFF
        while argument > 0xFF:
            argument >>= 8
            position -= 2
            if position < 0 or bytecode[position] != dis.EXTENDED_ARG:
                raise ValueError(
                    f"{code.co_name}() uses {instruction.argval!r} both as a global and as an attribute, and "
                    f"has too many names to tell them apart; lend it under an alias"
                )
            bytecode[position + 1] = argument & 0xFF


def forwarding_code(code: CodeType, callee: str) -> CodeType:
    """Code with the signature and the kind of ``code`` that passes its arguments on to the expression
    ``callee``.

    The kind (plain, generator, coroutine, asynchronous generator) is kept because frameworks ask for it
    before the first call.
    """
    parameters, arguments = _signature_source(code)
    call = f"{callee}({', '.join(arguments)})"
    keyword, body = "def", _HAND_OVER
    if code.co_flags & _COROUTINE:
        keyword, body = "async def", _HAND_OVER_COROUTINE
    elif code.co_flags & _ASYNC_GENERATOR:
        keyword, body = "async def", HAND_OVER_ASYNC_GENERATOR
    elif code.co_flags & _GENERATOR:
        body = _HAND_OVER_GENERATOR
    head = f"{keyword} forward({', '.join(parameters)}):"
    forward = _compile(head, body.format(call=call), code, code.co_freevars)
    return forward.replace(co_flags=forward.co_flags | (code.co_flags & _ITERABLE_COROUTINE))


def plain_forwarding_code(code: CodeType, callee: str) -> CodeType:
    """Code named and placed like ``code``, for a function without closure that passes all arguments on."""
    body = _HAND_OVER.format(call=f"{callee}(*args, **kwargs)")
    return _compile("def forward(*args, **kwargs):", body, code, closure=())


def _signature_source(code: CodeType) -> tuple[list[str], list[str]]:
    """The parameters of ``code`` as source, and the arguments that pass them on.

    Defaults are left out: they belong to the function, not to its code.
    """
    names = iter(code.co_varnames)
    parameters = [next(names) for _ in range(code.co_argcount)]
    arguments = parameters[:]
    if code.co_posonlyargcount:
        parameters.insert(code.co_posonlyargcount, "/")
    keyword_only = [next(names) for _ in range(code.co_kwonlyargcount)]
    if code.co_flags & _VARIABLE_POSITIONAL:
        star = "*" + next(names)
        parameters.append(star)
        arguments.append(star)
    elif keyword_only:
        parameters.append("*")
    parameters += keyword_only
    arguments += [f"{name}={name}" for name in keyword_only]
    if code.co_flags & _VARIABLE_KEYWORD:
        star = "**" + next(names)
        parameters.append(star)
        arguments.append(star)
    return parameters, arguments


def _compile(head: str, body: str, code: CodeType, closure: tuple[str, ...]) -> CodeType:
    # A function accepts other code only with as many closure variables as it has; naming them at the end,
    # where nothing arrives, makes the compiler count them in.
    source = [
        "def make():",
        *(f"    {name} = None" for name in closure),
        f"    {head}",
        textwrap.indent(body, " " * 8),
        *(f"        {name}" for name in closure),
        "    return forward",
    ]
    namespace: dict[str, object] = {}
    exec(compile("\n".join(source), code.co_filename, "exec", dont_inherit=True), namespace)
    forward = cast("FunctionType", cast("FunctionType", namespace["make"])())
    placed = forward.__code__.replace(co_name=code.co_name, co_firstlineno=code.co_firstlineno)
    if sys.version_info >= (3, 11):
        placed = placed.replace(co_qualname=code.co_qualname)
    return placed
