"""mmcv's compiled module ``mmcv._ext`` in plain PyTorch, function by function.

``functions.json`` declares every function that ``mmcv.ops`` of mmcv 1.4.0 to 2.2.0 asks for: the module of
this folder that holds it, the mmcv versions that ask for it, how much memory it may allocate, and its
argument list, which is that of the module compiled from mmcv 2.1.0 (of mmcv 1.4.0 where 2.x no longer has
the function). A module here exports its functions under exactly those names in ``__all__``; a declared
function that is not exported raises NotImplementedError when it is called.

Importing this package does not import torch; building the module, or asking for its coverage, does.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import types
from typing import Any, Callable, NamedTuple

__all__ = [
    "WORKING_MEMORY_BYTES",
    "Coverage",
    "FunctionDeclaration",
    "build_extension_module",
    "coverage",
    "declared_functions",
]

#: What a call may allocate whatever the size of its arguments: the ranges that large work is done in.
WORKING_MEMORY_BYTES = 128 << 20


class FunctionDeclaration(NamedTuple):
    """One function of ``mmcv._ext``."""

    name: str
    #: Module of this package that holds the function.
    module: str
    #: The mmcv versions, of those looked at, whose ``mmcv.ops`` asks for the function.
    mmcv_versions: tuple[str, ...]
    #: A call allocates, its results included, at most this many times the bytes of its arguments and results, and
    #: :data:`WORKING_MEMORY_BYTES`.
    memory: int
    #: Argument list and result, such as ``"(input: Tensor) -> Tensor"``.
    signature: str


class Coverage(NamedTuple):
    """How much of ``mmcv._ext`` exists in plain PyTorch."""

    implemented: int
    total: int
    missing: tuple[str, ...]


def declared_functions() -> dict[str, FunctionDeclaration]:
    """Every function of ``mmcv._ext``, by name, as declared in ``functions.json``."""
    content = pkgutil.get_data(__name__, "functions.json")
    if content is None:
        raise FileNotFoundError(f"functions.json is missing from {__name__}: reinstall patches-mmcv")
    return {
        name: FunctionDeclaration(
            name, entry["module"], tuple(entry["mmcv_versions"]), entry["memory"], entry["signature"]
        )
        for name, entry in json.loads(content).items()
    }


def build_extension_module() -> types.ModuleType:
    """Make a module object ``mmcv._ext`` that has every declared function. Imports torch.

    Nothing is put into ``sys.modules``. A function runs without recording gradients and without autocast, as
    a compiled one does, and also takes the arguments that it had in mmcv 1.x. One that does not exist yet
    raises NotImplementedError naming itself.
    """
    from .calling import like_a_compiled_function
    from .earlier_signatures import accept_earlier_signature

    extension = types.ModuleType("mmcv._ext", "mmcv's compiled operators in plain PyTorch (patches-mmcv).")
    implemented = _implemented_functions()
    for name in declared_functions():
        if name in implemented:
            function = accept_earlier_signature(name, implemented[name])
            setattr(extension, name, like_a_compiled_function(function))
        else:
            setattr(extension, name, _not_implemented(name))
    return extension


def coverage() -> Coverage:
    """Count the declared functions that are implemented, and name the missing ones. Imports torch."""
    declared = declared_functions()
    implemented = _implemented_functions()
    missing = tuple(name for name in declared if name not in implemented)
    return Coverage(len(declared) - len(missing), len(declared), missing)


def _implemented_functions() -> dict[str, Callable[..., Any]]:
    functions = {}
    for module_name in sorted({declaration.module for declaration in declared_functions().values()}):
        module = importlib.import_module(f"{__name__}.{module_name}")
        functions.update({name: getattr(module, name) for name in module.__all__})
    return functions


def _not_implemented(name: str) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            f"mmcv._ext.{name} has no plain PyTorch implementation in this version of patches-mmcv. "
            f"Install an mmcv with compiled operators for this device, or configure the model without {name}."
        )

    function.__name__ = function.__qualname__ = name
    return function
