"""`mx_driving._C` on the simulated device: the real module's names and signatures over references in plain
PyTorch.

The real extension is loaded only to be asked for its signatures, so a wrong number or type of arguments is
refused here as there. None of its functions runs.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import inspect
import os
import re
import sys
import warnings
from types import ModuleType
from typing import Any, Callable, Mapping

import torch

from .errors import OperatorNotModelled, SimulatedNpuUnavailable
from .kernels import reference_kernel
from .memory import is_device_tensor
from .recording import note

#: What pybind11 accepts for each type that its docstrings name.
_ACCEPTS: dict[str, Callable[[Any], bool]] = {
    "torch.Tensor": lambda value: isinstance(value, torch.Tensor),
    "int": lambda value: hasattr(value, "__index__"),
    "float": lambda value: hasattr(value, "__float__") and not isinstance(value, torch.Tensor),
    "bool": lambda value: isinstance(value, (bool, int)),
    "str": lambda value: isinstance(value, str),
    "list[float]": lambda value: isinstance(value, (list, tuple)) and all(map(_ACCEPTS["float"], value)),
    "Tuple[int, ...]": lambda value: isinstance(value, (list, tuple)) and all(map(_ACCEPTS["int"], value)),
}

_PARAMETER = re.compile(r"(\w+): ((?:[\w.]+)(?:\[[^\]]*\])?)(?: = ([^,]+))?(?:, |$)")

#: Called once at import with the path of the device's operator library; there is nothing to load.
_CALLED_AT_IMPORT = "_init_op_api_so_path"


def parse_signature(docstring: str) -> inspect.Signature:
    """The signature that pybind11 writes into the first line of a docstring; the annotations are its type
    names.

    Raises:
        ValueError: the line is not of that form.
    """
    line = docstring.strip().splitlines()[0]
    match = re.fullmatch(r"\w+\((.*)\) -> .*", line)
    if match is None:
        raise ValueError(f"not a pybind11 signature: {line!r}")
    parameters = []
    for name, type_name, default in _PARAMETER.findall(match.group(1)):
        kind = inspect.Parameter.POSITIONAL_ONLY if re.fullmatch(r"arg\d+", name) else None
        parameters.append(
            inspect.Parameter(
                name,
                kind or inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=default or inspect.Parameter.empty,
                annotation=type_name,
            )
        )
    return inspect.Signature(parameters)


def _is_accepted(value: Any, type_name: str) -> bool:
    optional = re.fullmatch(r"Optional\[(.*)\]", type_name)
    if optional:
        return value is None or _is_accepted(value, optional.group(1))
    return _ACCEPTS[type_name](value)


def _check_arguments(name: str, signature: inspect.Signature, args: Any, kwargs: Any) -> None:
    """Refuse what the real function refuses.

    Raises:
        TypeError: the number, the names or the types of the arguments do not fit.
        RuntimeError: a tensor lies on another device.
    """
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"mx_driving._C.{name}{signature}: {error}") from None
    for parameter, value in bound.arguments.items():
        type_name = signature.parameters[parameter].annotation
        if not _is_accepted(value, type_name):
            raise TypeError(
                f"mx_driving._C.{name}{signature}: {parameter} is {type(value).__name__}, not {type_name}"
            )
        if isinstance(value, torch.Tensor) and value.numel() and not is_device_tensor(value):
            raise RuntimeError(
                f"mx_driving._C.{name}: {parameter} must be an NPU tensor, it is on {value.device}"
            )


def _modelled(name: str, signature: inspect.Signature, reference: Callable[..., Any]) -> Callable[..., Any]:
    takes = len(inspect.signature(reference).parameters)
    if takes != len(signature.parameters):
        raise SimulatedNpuUnavailable(
            f"this mx_driving has {name}{signature}, but its model takes {takes} arguments: this is "
            "another version than the one that patcher_testing models"
        )
    kernel = reference_kernel(f"mx_driving::{name}", reference)

    @functools.wraps(reference)
    def function(*args: Any, **kwargs: Any) -> Any:
        _check_arguments(name, signature, args, kwargs)
        return kernel(*args, **kwargs)

    return function


def _unmodelled(name: str) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        raise OperatorNotModelled(f"mx_driving::{name}")

    return function


def fill_extension(
    module: ModuleType, real: ModuleType, references: Mapping[str, Callable[..., Any]]
) -> None:
    """Give `module` every function of the real extension.

    Raises:
        SimulatedNpuUnavailable: a reference does not fit the real signature, or the real function does not
        exist.
    """
    names = [name for name in dir(real) if not name.startswith("__")]
    absent = sorted(set(references) - set(names))
    if absent:
        raise SimulatedNpuUnavailable(
            f"this mx_driving lacks functions that are modelled: {', '.join(absent)}"
        )
    for name in names:
        if name == _CALLED_AT_IMPORT:
            setattr(module, name, lambda path: None)
        elif name in references:
            signature = parse_signature(getattr(real, name).__doc__)
            setattr(module, name, _modelled(name, signature, references[name]))
        else:
            setattr(module, name, _unmodelled(name))


class ExtensionLoader(importlib.abc.Loader):
    """Loads the stand-in in place of the compiled `mx_driving._C`."""

    def __init__(self, real_path: str, references: Mapping[str, Callable[..., Any]]) -> None:
        self._real_path = real_path
        self._references = references

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        loader = importlib.machinery.ExtensionFileLoader(module.__name__, self._real_path)
        real_spec = importlib.machinery.ModuleSpec(module.__name__, loader, origin=self._real_path)
        real = loader.create_module(real_spec)
        # creating a module of this kind also enters it into sys.modules
        sys.modules[module.__name__] = module
        fill_extension(module, real, self._references)


class PackageLoader(importlib.abc.Loader):
    """Loads the real `mx_driving` package and has its public functions recorded.

    Some of them never reach the compiled part (`npu_batch_matmul`, `npu_add_relu` of small tensors), and a
    test wants to know that they were called all the same.
    """

    def __init__(self, loader: Any, runtime_folder: str) -> None:
        self._loader = loader
        self._runtime_folder = runtime_folder

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # where the package looks for the driver's chip query
        before = os.environ.get("LD_LIBRARY_PATH")
        os.environ["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, (self._runtime_folder, before)))
        try:
            # what the package warns about at import (deprecations, transfer_to_npu) is not what a caller
            # tests
            with warnings.catch_warnings(record=True):
                self._loader.exec_module(module)
        finally:
            if before is None:
                del os.environ["LD_LIBRARY_PATH"]
            else:
                os.environ["LD_LIBRARY_PATH"] = before
        for name in module.__all__:
            function = getattr(module, name, None)
            if inspect.isroutine(function):
                setattr(module, name, _recorded(f"mx_driving.{name}", function))


def _recorded(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        note(name, args, kwargs)
        return function(*args, **kwargs)

    return call
