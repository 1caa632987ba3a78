"""skip_import with ``only_for``: stubs that are shown to importers in some packages only.

``sys.modules`` is the same for everybody, so these stubs never stand there: ``import`` statements (and
``importlib.import_module``) in the named packages are answered directly, all others see what is really there.
"""

from __future__ import annotations

import builtins
import importlib
import threading
import types
from importlib.util import module_from_spec, resolve_name
from typing import TYPE_CHECKING, Any, Mapping

from .answered_functions import AnsweredFunction
from .names import is_within
from .stubs import SkippedName, StubLoader, StubModule, stub_spec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class ScopedSkip:
    """The module ``name`` and everything below it, skipped for importers in the packages ``only_for``."""

    def __init__(self, name: str, on_call: str, only_for: tuple[str, ...]) -> None:
        self.name = name
        self._only_for = only_for
        self._loader = StubLoader(SkippedName(name, on_call))
        self._modules: dict[str, StubModule] = {}

    @property
    def importer_roots(self) -> set[str]:
        """First segments of the names of the modules that may see the stub."""
        return {"__main__", *(package.partition(".")[0] for package in self._only_for)}

    def is_shown_to(self, importer: Mapping[str, Any]) -> bool:
        """Whether the module with the globals ``importer`` sees the stub."""
        # The main module is called __main__; under `python -m` its package still says where it belongs.
        names = (importer.get("__name__"), importer.get("__package__"))
        return any(
            isinstance(name, str) and is_within(name, package) for name in names for package in self._only_for
        )

    def module(self, fullname: str) -> StubModule:
        """The stub of ``fullname``, which is ``name`` or lies below it; an attribute of its parent, too."""
        if fullname not in self._modules:
            module = module_from_spec(stub_spec(fullname, self._loader))
            module = self._modules.setdefault(fullname, module)  # type: ignore[arg-type]
            if fullname != self.name:
                parent, _, child = fullname.rpartition(".")
                setattr(self.module(parent), child, module)
        return self._modules[fullname]


class _ParentView(types.ModuleType):
    """A real package as importers see it for whom something below it is skipped."""

    def __init__(self, real: types.ModuleType, skips: Sequence[ScopedSkip]) -> None:
        super().__init__(real.__name__)
        for name in ("__doc__", "__spec__", "__loader__", "__package__"):
            setattr(self, name, getattr(real, name, None))
        vars(self)["__getattr__"] = lambda child: _attribute(real, child, skips)


def _attribute(real: types.ModuleType, child: str, skips: Sequence[ScopedSkip]) -> Any:
    fullname = f"{real.__name__}.{child}"
    for skip in skips:
        if skip.name == fullname:
            return skip.module(fullname)
        if is_within(skip.name, fullname):
            return _ParentView(_real_or_empty(fullname), skips)
    return getattr(real, child)


class _ImportStatement:
    """``builtins.__import__`` while a scoped skip is declared."""

    def __init__(self) -> None:
        self._original: Callable[..., Any] = builtins.__import__
        self._installed: Any = None

    def activate(self) -> None:
        if self._installed is None:
            self._original = original = builtins.__import__

            def __import__(
                name: str,
                globals: Mapping[str, Any] | None = None,
                locals: Mapping[str, Any] | None = None,
                fromlist: Sequence[str] | None = (),
                level: int = 0,
            ) -> Any:
                if isinstance(globals, dict) and _may_be_shown_to(globals):
                    module = _answer_import(name, globals, fromlist or (), level)
                    if module is not None:
                        return module
                return original(name, globals, locals, fromlist, level)

            self._installed = builtins.__import__ = __import__

    def deactivate(self) -> None:
        """Put the original back, unless somebody wrapped ours meanwhile: it then passes everything on."""
        if self._installed is not None and builtins.__import__ is self._installed:
            builtins.__import__ = self._original
            self._installed = None


def _may_be_shown_to(importer: Mapping[str, Any]) -> bool:
    """Says quickly for most importers that they see no scoped skip."""
    name = importer.get("__name__")
    return isinstance(name, str) and name.partition(".")[0] in _importer_roots


def _answer_import(
    name: str, importer: Mapping[str, Any], fromlist: Sequence[str], level: int
) -> types.ModuleType | None:
    """What the import statement evaluates to if it imports something skipped; None: import the real thing."""
    skips = shown_to(importer)
    fullname = _absolute(name, importer, level)
    if fullname is None:
        return None
    skip = _covering(fullname, skips)
    if skip is not None:
        module = skip.module(fullname)
        return module if fromlist else _top_level(fullname, skips)
    children = {
        skip.name[len(fullname) + 1 :].partition(".")[0] for skip in skips if is_within(skip.name, fullname)
    }
    if not children.intersection(fromlist):
        return None
    real = _real_or_empty(fullname)
    for child in fromlist:
        if child not in children and child != "*" and not hasattr(real, child):
            _import_child(f"{fullname}.{child}")
    return _ParentView(real, skips)


def _absolute(name: str, importer: Mapping[str, Any], level: int) -> str | None:
    """The absolute name of what is imported; None where the import statement will raise anyway."""
    package = importer.get("__package__")
    if package is None:  # PEP 366: a module that was not made by the import system
        package = importer["__name__"] if "__path__" in importer else importer["__name__"].rpartition(".")[0]
    try:
        return resolve_name("." * level + name, package)
    except (AttributeError, ImportError, TypeError, ValueError):
        return None


def _top_level(fullname: str, skips: Sequence[ScopedSkip]) -> types.ModuleType:
    """What ``import a.b.c`` binds: ``a``."""
    root = fullname.partition(".")[0]
    skip = _covering(root, skips)
    return _ParentView(_real_or_empty(root), skips) if skip is None else skip.module(root)


def _covering(fullname: str, skips: Sequence[ScopedSkip]) -> ScopedSkip | None:
    return next((skip for skip in skips if is_within(fullname, skip.name)), None)


def _real_or_empty(fullname: str) -> types.ModuleType:
    """The real package above a skipped module; an empty one where it does not exist."""
    try:
        return importlib.import_module(fullname)
    except ModuleNotFoundError as error:
        if error.name is None or not is_within(fullname, error.name):
            raise
        return types.ModuleType(fullname)


def _import_child(fullname: str) -> None:
    try:
        importlib.import_module(fullname)
    except ModuleNotFoundError as error:
        if error.name != fullname:
            raise


def _answer_import_module(name: str, package: str | None, importer: Mapping[str, Any]) -> Any:
    fullname = resolve_name(name, package) if name.startswith(".") and package else name
    skip = _covering(fullname, shown_to(importer))
    return _import_module.call_original(name, package) if skip is None else skip.module(fullname)


_scoped: tuple[ScopedSkip, ...] = ()
# First segments of the names of modules that may see a scoped skip.
_importer_roots: frozenset[str] = frozenset()
_import_statement = _ImportStatement()
_import_module = AnsweredFunction("importlib", "import_module", _answer_import_module)
_lock = threading.RLock()


def declared() -> tuple[ScopedSkip, ...]:
    """All scoped skips, the most specific names first."""
    return _scoped


def shown_to(importer: Mapping[str, Any]) -> list[ScopedSkip]:
    """The scoped skips that the module with the globals ``importer`` sees."""
    return [skip for skip in _scoped if skip.is_shown_to(importer)]


def is_hidden(fullname: str, importer: Mapping[str, Any]) -> bool:
    """True if a probe by ``importer`` shall find ``fullname`` absent."""
    return _covering(fullname, shown_to(importer)) is not None


def hidden_names(importer: Mapping[str, Any]) -> list[str]:
    """The names that are skipped for ``importer``."""
    return [skip.name for skip in shown_to(importer)]


def add(skip: ScopedSkip) -> None:
    """Show ``skip`` to its importers from now on."""
    with _lock:
        _set(sorted((skip, *_scoped), key=lambda each: -each.name.count(".")))


def remove(skip: ScopedSkip) -> None:
    """Forget ``skip``; with the last one, imports are what they were."""
    with _lock:
        _set([each for each in _scoped if each is not skip])


def _set(skips: Sequence[ScopedSkip]) -> None:
    global _scoped, _importer_roots
    _scoped = tuple(skips)
    _importer_roots = frozenset().union(*(skip.importer_roots for skip in skips))
    for answered in (_import_statement, _import_module):
        if skips:
            answered.activate()
        else:
            answered.deactivate()
