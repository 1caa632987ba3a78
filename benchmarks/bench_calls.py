"""What a call of a patched function costs, beside the same thing written by hand and beside other wrappers."""

from __future__ import annotations

import functools
import sys
import types
from typing import Any, Callable, Iterator

from patcher_core import AtomicPatch, Patcher, configure_summary, set_patcher_log_level, with_imports
from patcher_core.lent_imports import lend

from .paired import Figure, paired

LOOP = 1000


def original(x: int, flag: bool = False) -> int:
    return x


def replacement(x: int, flag: bool = False) -> int:
    return x


def check(x: int, flag: bool = False) -> bool:
    return flag


def by_hand(x: int, flag: bool = False) -> int:
    try:
        use_replacement = check(x, flag)
    except Exception:
        use_replacement = False
    if use_replacement:
        return replacement(x, flag)
    return original(x, flag)


def closure(function: Callable[..., Any]) -> Callable[..., Any]:
    """The usual decorator: ``*args, **kwargs`` in a closure."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if check(*args, **kwargs):
            return replacement(*args, **kwargs)
        return function(*args, **kwargs)

    return wrapper


def patched(name: str, **how: Any) -> Callable[..., Any]:
    """A function of a throw-away module after it was patched."""
    module = types.ModuleType(name)
    module.target = types.FunctionType(original.__code__, {}, "target", original.__defaults__)  # type: ignore[attr-defined]
    sys.modules[name] = module
    Patcher().add(AtomicPatch(f"{name}.target", replacement, **how)).apply()
    found: Callable[..., Any] = module.target  # type: ignore[attr-defined]
    return found


def calls(function: Callable[..., Any], positional: bool = True) -> Callable[[], None]:
    def positionally() -> None:
        for _ in range(LOOP):
            function(1, True)

    def by_keyword() -> None:
        for _ in range(LOOP):
            function(x=1, flag=True)

    return positionally if positional else by_keyword


@with_imports(("math", "floor"))
def with_lent_import(x: float) -> int:
    return floor(x)  # type: ignore[name-defined,no-any-return]  # noqa: F821


def with_module_import() -> Callable[[float], int]:
    namespace: dict[str, Any] = {}
    exec("from math import floor\ndef function(x):\n    return floor(x)\n", namespace)
    function: Callable[[float], int] = namespace["function"]
    return function


def each(function: Callable[[float], int]) -> Callable[[], None]:
    def run() -> None:
        for _ in range(LOOP):
            function(1.5)

    return run


def figures() -> Iterator[Figure]:
    configure_summary(False)
    set_patcher_log_level("ERROR")
    plain = patched("bench_calls_plain")
    checked = patched("bench_calls_checked", runtime_check=check)
    yield Figure(
        "call, unconditional", paired(calls(plain), calls(replacement)), 1.02, "the bare replacement"
    )
    yield Figure(
        "call, runtime_check, positional", paired(calls(checked), calls(by_hand)), 1.10, "a hand-written if"
    )
    yield Figure(
        "call, runtime_check, by keyword",
        paired(calls(checked, False), calls(by_hand, False)),
        1.15,
        "a hand-written if",
    )
    yield Figure(
        "call, runtime_check",
        paired(calls(checked), calls(closure(original))),
        0.60,
        "*args, **kwargs and wraps",
    )
    yield from _beside_wrapt(checked)
    lend(with_lent_import)
    yield Figure(
        "call, with_imports",
        paired(each(with_lent_import), each(with_module_import())),
        1.05,
        "module-level imports",
    )


def _beside_wrapt(checked: Callable[..., Any]) -> Iterator[Figure]:
    import wrapt

    def wrapper(wrapped: Any, instance: Any, args: Any, kwargs: Any) -> Any:
        return replacement(*args, **kwargs) if check(*args, **kwargs) else wrapped(*args, **kwargs)

    peer = wrapt.FunctionWrapper(original, wrapper)
    yield Figure("call, runtime_check", paired(calls(checked), calls(peer)), 0.16, "wrapt.FunctionWrapper")
