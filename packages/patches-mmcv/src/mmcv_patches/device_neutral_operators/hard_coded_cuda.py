"""Whether a function of the installed mmcv asks for CUDA, read from its code and not guessed from a version."""

from __future__ import annotations

import importlib.util
import sys
from types import CodeType
from typing import Any, Iterator

__all__ = ["asks_for_cuda"]

#: Names in compiled code: ``torch.cuda...`` and ``tensor.cuda()``, ``tensor.is_cuda``.
_NAMES = {"cuda", "is_cuda"}


def asks_for_cuda(target: str) -> bool:
    """Whether the source of ``target`` ("mmcv.ops.knn.KNN.forward") names CUDA; a precheck.

    The code is that of the module's file, which stays the same while the function is patched. Annotations are not part
    of a function's code. Where a module has no code to read the answer is True: the replacement is right in any case.
    """
    module, path = _module_and_path(target)
    code = _module_code(module)
    for name in path:
        code = None if code is None else _nested(code, name)
    return code is None or any(map(_names_cuda, _with_nested(code)))


def _module_and_path(target: str) -> tuple[str, list[str]]:
    """The longest prefix that is an imported module, and the names below it."""
    module, path = target, []
    while module not in sys.modules and "." in module:
        module, _, name = module.rpartition(".")
        path.insert(0, name)
    return module, path


def _module_code(name: str) -> CodeType | None:
    module = sys.modules.get(name)
    spec: Any = getattr(module, "__spec__", None) or importlib.util.find_spec(name)
    get_code = getattr(getattr(spec, "loader", None), "get_code", None)
    return None if get_code is None else get_code(spec.name)


def _nested(code: CodeType, name: str) -> CodeType | None:
    """The code of a function or class of that name in the body of another."""
    found = [c for c in code.co_consts if isinstance(c, CodeType) and c.co_name == name]
    return found[-1] if found else None


def _with_nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _with_nested(constant)


def _names_cuda(code: CodeType) -> bool:
    return bool(_NAMES & {*code.co_names}) or "cuda" in code.co_consts
