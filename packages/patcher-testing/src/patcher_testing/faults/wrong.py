"""What a wrong replacement is: it does what the right one does, and what comes out of it is a little off."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import sys
from types import ModuleType
from typing import Any, Callable, Iterator, Mapping

#: Numbers become larger by one percent: more than rounding explains, less than most tests would be written against.
SCALE = 1.01


def wrong_value(value: Any) -> Any:
    """Another value of the same type, shape and dtype; ``value`` itself where there is none.

    Floating numbers are scaled by 1.01, truth values inverted; the whole numbers of an array are mirrored within their
    range, so that indices stay indices, or raised by 1 where they are all the same. Containers and the attributes of
    other objects are changed in a copy. Values of tensors keep their gradient.
    """
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, (float, complex)):
        return value * SCALE if value else value + 1
    if isinstance(value, str):
        return f"{value}?"
    if _is_array(value):
        return _wrong_array(value)
    if isinstance(value, tuple):
        changed = [wrong_value(item) for item in value]
        return type(value)(*changed) if hasattr(value, "_fields") else type(value)(changed)
    if isinstance(value, list):
        return type(value)(map(wrong_value, value))
    if isinstance(value, Mapping):
        changed = {key: wrong_value(entry) for key, entry in value.items()}
        return type(value)(changed) if type(value) is dict else _with_attributes(value, {}, changed)
    return _wrong_attributes(value)


def wrong(value: Any, does_nothing: bool = False) -> Any:
    """What stands in for ``value`` where a fault is planted in it.

    A function gives back (and writes into the tensors it is given) something wrong; with ``does_nothing``, for one
    whose effect is elsewhere, it is not called. A class becomes one whose ``forward`` is wrong, or another class.
    Every function of a module is wrong. Anything else becomes another value.
    """
    if isinstance(value, (staticmethod, classmethod)):
        return type(value)(wrong(value.__func__, does_nothing))
    if isinstance(value, property):
        return property(wrong(value.fget, does_nothing), value.fset, value.fdel)
    if isinstance(value, type):
        return _wrong_class(value)
    if isinstance(value, ModuleType):
        return with_functions(value, lambda name, function: wrong(function, does_nothing))
    if not callable(value):
        return wrong_value(value)
    if does_nothing:
        return around(value, lambda function, args, kwargs: None)
    return around(value, _call_wrongly)


def around(function: Callable[..., Any], call: Callable[..., Any]) -> Callable[..., Any]:
    """A function under the name and signature of ``function`` that calls ``call(function, args, kwargs)``."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return call(function, args, kwargs)

    # torch.jit.script and others would follow it to the original
    vars(wrapper).pop("__wrapped__", None)
    with contextlib.suppress(TypeError, ValueError):  # a built-in function may have none
        wrapper.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return wrapper


def with_functions(module: ModuleType, change: Callable[[str, Any], Any]) -> ModuleType:
    """A copy of a module, whose public functions are changed: those in its ``__all__``, if it has one."""
    changed = ModuleType(module.__name__, module.__doc__)
    vars(changed).update(vars(module))
    exported = getattr(module, "__all__", None)
    for name, value in vars(module).items():
        is_public = not name.startswith("_") if exported is None else name in exported
        if is_public and inspect.isroutine(value):
            vars(changed)[name] = change(name, value)
    return changed


def is_changed_by(function: Callable[..., Any], args: Any, kwargs: Any) -> tuple[Any, bool]:
    """Call a function; what it gave back, and whether :func:`wrong` would have made a difference to the caller."""
    before = _versions(args, kwargs)
    result = function(*args, **kwargs)
    return result, any(map(_can_be_wrong, _written(before))) or _can_be_wrong(result)


def _call_wrongly(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    before = _versions(args, kwargs)
    result = function(*args, **kwargs)
    written = _written(before)
    if written:
        import torch

        with torch.no_grad():
            for tensor in written:
                tensor.copy_(_wrong_array(tensor))
    return result if any(result is tensor for tensor in written) else wrong_value(result)


def _wrong_class(cls: type) -> type:
    forward = getattr(cls, "forward", None)
    contents = {} if forward is None else {"forward": wrong(forward)}
    try:
        return type(cls.__name__, (cls,), contents)
    except TypeError:  # bool, and others that cannot be subclassed
        return type(cls.__name__, (), contents)


def _is_array(value: Any) -> bool:
    """A tensor, or an array or number of NumPy; without importing what nobody has imported."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    return (torch is not None and isinstance(value, torch.Tensor)) or (
        numpy is not None
        and isinstance(value, (numpy.ndarray, numpy.generic))
        and value.dtype.kind in "fciub"
    )


def _size(array: Any) -> int:
    return int(array.numel() if hasattr(array, "numel") else array.size)


def _wrong_array(array: Any) -> Any:
    if not _size(array):
        return array
    if "bool" in str(array.dtype):
        return ~array
    if _is_floating(array):
        return (array * SCALE).astype(array.dtype) if hasattr(array, "astype") else array * SCALE
    mirrored = array.max() + array.min() - array
    return array + 1 if (mirrored == array).all() else mirrored


def _is_floating(array: Any) -> bool:
    return any(kind in str(array.dtype) for kind in ("float", "complex"))


def _wrong_attributes(value: Any) -> Any:
    """A copy of an object with other numbers in its arrays: the floating ones, if there are any."""
    own = getattr(value, "__dict__", None)
    if not isinstance(own, dict) or callable(value) or isinstance(value, ModuleType):
        return value
    arrays = {name: held for name, held in own.items() if _is_array(held) and _size(held)}
    floating = {name: array for name, array in arrays.items() if _is_floating(array)}
    changed = {name: _wrong_array(array) for name, array in (floating or arrays).items()}
    return _with_attributes(value, changed, {}) if changed else value


def _with_attributes(value: Any, attributes: Mapping[str, Any], entries: Mapping[Any, Any]) -> Any:
    changed = copy.copy(value)
    vars(changed).update(attributes)
    for key, entry in entries.items():
        changed[key] = entry
    return changed


def _can_be_wrong(value: Any) -> bool:
    if _is_array(value):
        return _size(value) > 0 and (not _is_floating(value) or bool((value != 0).any()))
    if isinstance(value, (tuple, list)):
        return any(map(_can_be_wrong, value))
    if isinstance(value, Mapping):
        return any(map(_can_be_wrong, value.values()))
    return isinstance(value, (bool, int, float, complex, str)) or wrong_value(value) is not value


def _versions(*values: Any) -> list[tuple[Any, int]]:
    """The tensors among arguments, with the number of times that each was written to."""
    torch = sys.modules.get("torch")
    if torch is None:
        return []
    return [
        (tensor, tensor._version) for tensor in _tensors(torch.Tensor, values) if not tensor.is_inference()
    ]


def _written(before: list[tuple[Any, int]]) -> list[Any]:
    """The tensors that were written to since, each once."""
    found: dict[int, Any] = {id(tensor): tensor for tensor, version in before if tensor._version != version}
    return list(found.values())


def _tensors(kind: type, value: Any) -> Iterator[Any]:
    if isinstance(value, kind):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _tensors(kind, item)
    elif isinstance(value, dict):
        yield from _tensors(kind, list(value.values()))
