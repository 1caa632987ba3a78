"""The ``runtime_check`` dispatcher: per call, the replacement where the check says so, else the original.

The dispatcher is generated: a function whose only globals are the three callables and the reporter. That costs
less per call than closure cells, and traces under ``torch.compile(fullgraph=True)``.

Its source can be read (:mod:`linecache`): tracebacks show it, and compilers of source, which know no ``try``
(``torch.jit.script``), find what they can compile, line for line the same. Code compiled so calls the check as it
is: one that raises is an error there.
"""

from __future__ import annotations

import builtins
import linecache
from types import CodeType, FunctionType
from typing import Any, Callable

from .events import patcher_logger
from .signatures import Parameters, parameters

# No name in it may be that of a parameter, hence the prefix, of ``type`` as well.
_DECIDE = """\
{keyword} dispatch({parameters}):
    try:
        _patcher_decision = _patcher_check({arguments})
    except Exception as _patcher_error:
        _patcher_decision = _patcher_check_failed(_patcher_type(_patcher_error).__name__)
    if _patcher_decision:
"""

#: What is shown as the source of the above.
_SHOWN_DECIDE = """\
{keyword} dispatch({parameters}):{remark}
    # Where the check raises, the original is called.
    use_replacement = _patcher_check({arguments})


    if use_replacement:
"""

_HAND_OVER = """\
        return _patcher_replacement({arguments})
    return _patcher_original({arguments})
"""
_HAND_OVER_COROUTINE = """\
        return await _patcher_replacement({arguments})
    return await _patcher_original({arguments})
"""
_HAND_OVER_GENERATOR = """\
        return (yield from _patcher_replacement({arguments}))
    return (yield from _patcher_original({arguments}))
"""
_HAND_OVER_ASYNC_GENERATOR = """\
        _patcher_stream = _patcher_replacement({arguments})
    else:
        _patcher_stream = _patcher_original({arguments})
"""

# Bits of ``co_flags`` (module ``inspect`` names them, and is too slow to import for it).
_GENERATOR = 0x20
_COROUTINE = 0x80
_ASYNC_GENERATOR = 0x200

_FORWARDER_TEMPLATE = """\
def forward({parameters}):
    _patcher_note_call()
    return _patcher_replacement({arguments})
"""

_SHOWN_FORWARDER_TEMPLATE = """\
def forward({parameters}){returns}:{remark}

    return _patcher_replacement({arguments})
"""

_REMARK_ON_VARIABLE_ARGUMENTS = (
    "  # for fixed parameters, give the replacement and the runtime_check those of the target"
)

_compiled: dict[tuple[str, tuple[str, ...]], CodeType] = {}


def make_dispatcher(
    original: Callable[..., Any],
    replacement: Callable[..., Any],
    check: Callable[..., Any],
    path: str,
) -> FunctionType:
    """A function that calls ``replacement`` where ``check`` of the same arguments is true, else ``original``.

    A check that raises counts as False and is reported once at WARNING. What the replacement raises is the
    caller's to see. Arguments are forwarded by position only where the parameters of all three agree;
    otherwise exactly as the caller wrote them.
    """
    agreed = _agreed_parameters(original, replacement, check)
    keyword, hand_over = _form_for(_shared_kind(original, replacement))
    made = FunctionType(
        _code_for(agreed, _DECIDE + hand_over, _SHOWN_DECIDE + hand_over, keyword=keyword),
        {
            "__builtins__": builtins,
            "_patcher_check": check,
            "_patcher_check_failed": _failure_reporter(path),
            "_patcher_original": original,
            "_patcher_replacement": replacement,
            "_patcher_type": type,
        },
        "dispatch",
        agreed.defaults if agreed else None,
    )
    if agreed and agreed.keyword_defaults:
        made.__kwdefaults__ = dict(agreed.keyword_defaults)
    carry_identity(original, made)
    return made


def make_forwarder(original: Any, replacement: FunctionType, note_call: Callable[[], object]) -> FunctionType:
    """A function that calls ``note_call`` and then ``replacement``; it carries the identity of ``original``."""
    agreed = parameters(replacement)
    types = {name: kind for name, kind in replacement.__annotations__.items() if not isinstance(kind, str)}
    made = FunctionType(
        _code_for(agreed, _FORWARDER_TEMPLATE, _SHOWN_FORWARDER_TEMPLATE, tuple(types)),
        {
            "__builtins__": builtins,
            "_patcher_note_call": note_call,
            "_patcher_replacement": replacement,
            **{f"_patcher_type_of_{name}": kind for name, kind in types.items()},
        },
        "forward",
        agreed.defaults if agreed else None,
    )
    if agreed and agreed.keyword_defaults:
        made.__kwdefaults__ = dict(agreed.keyword_defaults)
    carry_identity(original, made)
    return made


def _agreed_parameters(*functions: Callable[..., Any]) -> Parameters | None:
    """The parameters that all functions share: names, kinds and defaults; None where any of them differs."""
    if not all(type(function) is FunctionType for function in functions):
        return None
    first, *others = map(parameters, functions)
    if first is None:
        return None
    return first if all(other is not None and first.agrees_with(other) for other in others) else None


def _form_for(kind: int) -> tuple[str, str]:
    """How a dispatcher of this kind begins and how it hands over.

    The kind is kept because frameworks ask for it before they call.
    """
    if kind == _COROUTINE:
        return "async def", _HAND_OVER_COROUTINE
    if kind == _GENERATOR:
        return "def", _HAND_OVER_GENERATOR
    if kind == _ASYNC_GENERATOR:
        import textwrap

        from .function_code import HAND_OVER_ASYNC_GENERATOR

        stream = HAND_OVER_ASYNC_GENERATOR.format(call="_patcher_stream")
        return "async def", _HAND_OVER_ASYNC_GENERATOR + textwrap.indent(stream, "    ")
    return "def", _HAND_OVER


def _shared_kind(original: Any, replacement: Any) -> int:
    """Bit of ``co_flags`` of the kind of function that both are; 0 for plain ones and where they differ."""
    kinds = _GENERATOR | _COROUTINE | _ASYNC_GENERATOR
    first, second = _flags(original) & kinds, _flags(replacement) & kinds
    return first if first == second else 0


def _flags(function: Any) -> int:
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return code.co_flags if isinstance(code, CodeType) else 0


def _code_for(
    agreed: Parameters | None,
    template: str,
    shown_template: str,
    annotated: tuple[str, ...] = (),
    keyword: str = "def",
) -> CodeType:
    if agreed is None:
        declared = shown_parameters = arguments = "*args, **kwargs"
        remark = _REMARK_ON_VARIABLE_ARGUMENTS
    else:
        declared, arguments = _parameter_lists(agreed)
        shown_parameters, _ = _parameter_lists(agreed, annotated)
        remark = ""
    source = template.format(keyword=keyword, parameters=declared, arguments=arguments)
    key = (source, annotated)
    code = _compiled.get(key)
    if code is None:
        returns = " -> _patcher_type_of_return" if "return" in annotated else ""
        shown = shown_template.format(
            keyword=keyword,
            parameters=shown_parameters,
            arguments=arguments,
            remark=remark,
            returns=returns,
        )
        filename = f"<patcher_core dispatcher {len(_compiled) + 1}>"
        # Without a time of modification an entry stays, whatever is checked against the disk.
        linecache.cache[filename] = (len(shown), None, shown.splitlines(keepends=True), filename)
        namespace: dict[str, Any] = {}
        exec(compile(source, filename, "exec"), namespace)
        made = next(value for value in namespace.values() if isinstance(value, FunctionType))
        code = _compiled[key] = made.__code__
    return code


def _parameter_lists(agreed: Parameters, annotated: tuple[str, ...] = ()) -> tuple[str, str]:
    """The text of a ``def``'s parameter list (defaults are placeholders) and of the call that forwards it.

    The types of ``annotated`` parameters stand in it by the names that the function's globals have them under.
    """

    def declaration(name: str) -> str:
        return f"{name}: _patcher_type_of_{name}" if name in annotated else name

    declared = [
        declaration(name) + ("" if index < agreed.required else "=None")
        for index, name in enumerate(agreed.positional)
    ]
    arguments = list(agreed.positional)
    if agreed.positional_only:
        declared.insert(agreed.positional_only, "/")
    if agreed.var_positional:
        declared.append(f"*{agreed.var_positional}")
        arguments.append(f"*{agreed.var_positional}")
    elif agreed.keyword_only:
        declared.append("*")
    for name in agreed.keyword_only:
        declared.append(declaration(name) + ("=None" if name in agreed.keyword_defaults else ""))
        arguments.append(f"{name}={name}")
    if agreed.var_keyword:
        declared.append(f"**{agreed.var_keyword}")
        arguments.append(f"**{agreed.var_keyword}")
    return ", ".join(declared), ", ".join(arguments)


def _failure_reporter(path: str) -> Callable[[str], bool]:
    """What a dispatcher calls when its check raises: says so once, and answers False."""
    reported = False

    def check_failed(error_name: str) -> bool:
        nonlocal reported
        if not reported:
            reported = True
            import sys

            error = sys.exc_info()[1]
            text = f"{error_name}: {error}" if error is not None else error_name
            patcher_logger.warning(
                f"the runtime_check of {path} raised {text}; the original runs for such calls"
                " (reported once). Make the check answer False for arguments that are not its own."
            )
        return False

    # torch.compile evaluates a function so marked while it traces and takes the answer as a constant, so
    # that a report never breaks the graph (what torch.compiler.assume_constant_result sets, torch 2.1-2.15).
    check_failed._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return check_failed


def carry_identity(original: Any, made: FunctionType) -> None:
    """Give ``made`` the name, module, documentation, attributes and, where it differs, signature of ``original``.

    It then pickles by reference and ``inspect.signature`` shows the original. ``__wrapped__`` is never set:
    ``torch.jit.script`` follows it and would compile the original.
    """
    for name in ("__name__", "__qualname__", "__module__", "__doc__"):
        value = getattr(original, name, None)
        if value is not None:
            setattr(made, name, value)
    for name, value in getattr(original, "__dict__", {}).items():
        made.__dict__.setdefault(name, value)
    made.__dict__.pop("__wrapped__", None)
    if not isinstance(original, FunctionType):
        _carry_signature(original, made)
        return
    made.__annotations__ = dict(original.__annotations__)
    wanted, found = parameters(original), parameters(made)
    if wanted is None or found is None or not wanted.agrees_with(found) or "__wrapped__" in original.__dict__:
        _carry_signature(original, made)


def _carry_signature(original: Any, made: FunctionType) -> None:
    import inspect

    try:
        made.__signature__ = inspect.signature(original)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        made.__dict__.pop("__signature__", None)
