"""The version of a library that carries no metadata, read from its source without running any of it."""

from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Iterator

from .distributions import is_library_hidden

if TYPE_CHECKING:
    import ast

#: Modules in which libraries keep their version, where ``__init__`` does not say.
_VERSION_MODULES = ("version", "_version", "__version__", "__about__")

#: How far ``from .version import __version__`` is followed.
_MAXIMUM_HOPS = 3


def version_in_source(root: str) -> str | None:
    """The version that the importable library ``root`` states about itself; None where it states none.

    A library that is imported already is asked in its ``__dict__``; else the assignment to ``__version__`` is
    looked up in its source, following imports of that name from its own modules.
    """
    if is_library_hidden(root):
        return None
    return _from_loaded_module(root) or _from_files(root)


def is_importable(root: str) -> bool:
    """Whether ``import root`` would find something. Nothing is imported; hidden libraries are not there."""
    if is_library_hidden(root):
        return False
    return sys.modules.get(root) is not None or _find_spec(root) is not None


def _from_loaded_module(root: str) -> str | None:
    module = sys.modules.get(root)
    if not isinstance(module, ModuleType):
        return None
    stated = object.__getattribute__(module, "__dict__").get("__version__")
    return str(stated) if isinstance(stated, str) else None


def _find_spec(root: str) -> ModuleSpec | None:
    module = sys.modules.get(root)
    if isinstance(module, ModuleType):
        spec = object.__getattribute__(module, "__dict__").get("__spec__")
        return spec if isinstance(spec, ModuleSpec) else None
    from importlib.util import find_spec

    try:
        return find_spec(root)
    except (ImportError, ValueError, AttributeError):
        return None


def _from_files(root: str) -> str | None:
    spec = _find_spec(root)
    if spec is None:
        return None
    version = _version_in_file(spec.origin or "", "__version__", root, _MAXIMUM_HOPS)
    for folder in spec.submodule_search_locations or ():
        for module in _VERSION_MODULES:
            for name in ("__version__", "version"):
                version = version or _version_in_file(os.path.join(folder, f"{module}.py"), name, root, 0)
    return version


def _version_in_file(path: str, name: str, root: str, hops: int) -> str | None:
    """The text that the module at ``path`` binds to ``name`` at its top level."""
    import ast

    for statement in _top_level_statements(path):
        if isinstance(statement, (ast.Assign, ast.AnnAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            value = statement.value
            bound = {target.id for target in targets if isinstance(target, ast.Name)}
            if name in bound and isinstance(value, ast.Constant) and isinstance(value.value, str):
                return value.value
        elif isinstance(statement, ast.ImportFrom) and hops:
            for alias in statement.names:
                if alias.name == "*" or (alias.asname or alias.name) == name:
                    file = _file_of_import(statement, path, root)
                    wanted = name if alias.name == "*" else alias.name
                    found = _version_in_file(file, wanted, root, hops - 1) if file else None
                    if found is not None:
                        return found
    return None


def _top_level_statements(path: str) -> Iterator[ast.stmt]:
    """The statements of a module, and those inside its ``if`` and ``try``."""
    import ast
    import tokenize
    import warnings

    if not path.endswith(".py"):
        return
    try:
        with tokenize.open(path) as stream:
            source = stream.read()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what the library's author is warned about is not ours to repeat
            waiting: list[ast.stmt] = ast.parse(source).body
    except (OSError, SyntaxError, ValueError):
        return
    while waiting:
        statement = waiting.pop(0)
        yield statement
        if isinstance(statement, (ast.If, ast.Try)):
            waiting = [*statement.body, *statement.orelse, *waiting]
            if isinstance(statement, ast.Try):
                for handler in statement.handlers:
                    waiting += handler.body


def _file_of_import(statement: ast.ImportFrom, path: str, root: str) -> str | None:
    """The file to which a relative import, or one of the library itself, leads from the file at ``path``."""
    module = statement.module or ""
    if statement.level == 0 and module.startswith(f"{root}."):
        module = module[len(root) + 1 :]
    elif statement.level != 1:
        return None
    base = os.path.join(os.path.dirname(path), *module.split("."))
    candidates = (f"{base}.py", os.path.join(base, "__init__.py"))
    return next((candidate for candidate in candidates if os.path.isfile(candidate)), None)
