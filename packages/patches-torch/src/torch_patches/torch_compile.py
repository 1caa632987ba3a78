"""What torch.compile and torch.fx have to know about patches, and what is compiled already."""

from __future__ import annotations

import functools
import sys
from types import ModuleType
from typing import Any, Callable

from patcher_core import EnvironmentStep, number_of_changes, patcher_logger, replaced_functions
from patcher_core.imports import subscribe


class TorchCompile(EnvironmentStep):
    """Keeps torch.compile and torch.fx right while patches come and go.

    Dynamo (torch 2.2 to 2.15) builds a table of the functions of torch, by identity, when it is imported. Built
    while ``torch.matmul`` is patched, it would know the patch in place of the original, and compiling would fail for
    good after ``restore()``. So it is built from the originals; that of torch 2.1 is built anew after every change.

    torch.fx (1.12 to 2.15) writes code that names the functions of torch: ``torch.matmul(x, y)`` for the original that
    a patch called would be the patch once more. So it refers to a replaced function by object.

    Code that is compiled is guarded against a change of the functions it calls, but not of the methods of the classes
    it uses: it would go on with what it was compiled with. So it is dropped, and compiled again at its next call.
    """

    name = "torch_compile"
    library = "torch"
    why = "compiled code would keep patches that are gone, miss new ones, and apply wrappers twice"

    _changes_seen = 0
    _is_prepared = False

    @classmethod
    def prepare(cls) -> None:
        if not cls._is_prepared:
            cls._is_prepared = True
            for module, function, wrapper in (
                ("torch._dynamo.trace_rules", "load_object", show_originals),
                ("torch.fx.graph", "_is_from_torch", deny_replaced),
            ):
                wrap_when_imported(module, function, wrapper)

    @classmethod
    def patched(cls, written: bool) -> str:
        changes = number_of_changes()
        if changes == cls._changes_seen:
            return ""
        cls._changes_seen = changes
        told = drop_compiled_code()
        if told and written:
            patcher_logger.warning(f"{told}. Call apply() before anything is compiled.")
        return told


def wrap_when_imported(
    module_name: str, function_name: str, wrapper: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> None:
    """Wrap a function of a module, now or right after its import. It stays: without patches it changes nothing."""

    def wrap(module: ModuleType) -> None:
        function = vars(module).get(function_name)
        if function is None:
            patcher_logger.warning(
                f"this torch has no {module_name}.{function_name}: torch.compile may not see patches as they are."
                " Please report the version of torch."
            )
        else:
            setattr(module, function_name, functools.wraps(function)(wrapper(function)))

    subscribe(module_name, wrap)
    if module_name in sys.modules:
        wrap(sys.modules[module_name])


def show_originals(load_object: Callable[[str], Any]) -> Callable[[str], Any]:
    """Loads what a dotted name means without patches."""

    def load_original(name: str) -> Any:
        found = load_object(name)
        return _replaced.original_of(found)

    return load_original


def deny_replaced(is_from_torch: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Whether generated code may refer to an object by its name in torch: not while another is there."""

    def names_it(obj: Any) -> bool:
        return is_from_torch(obj) and not _replaced.has_original(obj)

    return names_it


class _Replaced:
    """The functions of torch that are patched now, looked up by identity."""

    def __init__(self) -> None:
        self._changes = -1
        self._originals: dict[int, Any] = {}
        self._original_ids: frozenset[int] = frozenset()

    def original_of(self, present: Any) -> Any:
        """What ``present`` replaces; ``present`` itself if it is no patch."""
        self._refresh()
        return self._originals.get(id(present), present)

    def has_original(self, obj: Any) -> bool:
        """True if ``obj`` is what a patch replaces."""
        self._refresh()
        return id(obj) in self._original_ids

    def _refresh(self) -> None:
        changes = number_of_changes()
        if self._changes == changes:
            return
        self._changes = changes
        self._originals = {
            id(replaced.present): replaced.original for replaced in replaced_functions("torch")
        }
        self._original_ids = frozenset(map(id, self._originals.values()))


_replaced = _Replaced()


def drop_compiled_code() -> str:
    """Drop what dynamo compiled so far; gives back what was done, "" if nothing was compiled."""
    convert_frame = sys.modules.get("torch._dynamo.convert_frame")
    if convert_frame is None or not convert_frame.input_codes.seen:
        return ""
    import torch

    context = torch._guards.CompileContext
    if getattr(context, "try_get", context.get)() is not None:  # torch 2.1: get() gives back None
        return (
            "patches changed while torch.compile was at work; call torch._dynamo.reset() afterwards, or apply patches"
            " before anything is compiled"
        )
    torch._dynamo.reset()
    table_of_2_1 = sys.modules.get("torch._dynamo.allowed_functions")
    if table_of_2_1 is not None:
        table_of_2_1._allowed_function_ids.function_ids = None  # made again when next asked for
    return "code that torch.compile made before patches changed is dropped and will be compiled again"
