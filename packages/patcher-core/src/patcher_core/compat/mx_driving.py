"""``mx_driving.patcher``, the import path of the predecessor, as an alias of this project.

::

    import patcher_core.compat.mx_driving          # once, above the first import of mx_driving
    from mx_driving.patcher import AtomicPatch, Patcher, default_patcher

Importing this module is enough. ``mx_driving`` itself stays the real operator library where it is installed:
importing its patcher imports it first, as it always did. Where it is not installed a stand-in with nothing but the
patcher makes the old path work on any machine. Which names there are is in :mod:`.old_names`; each is looked up when
it is first asked for.
"""

from __future__ import annotations

import difflib
import importlib
import sys
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, Any

from ..events import patcher_logger
from ..imports.finder import ModuleSource, finder
from ..imports.names import is_within
from .old_names import ELSEWHERE, MODULES, OF_THE_PACKAGE, OF_THE_ROOT, PREDEFINED
from .predefined import names_here, predefined

if TYPE_CHECKING:
    from types import ModuleType

ROOT = "mx_driving"
PACKAGE = "mx_driving.patcher"

#: What this project has for old programs, apart from the patch sets.
_OWN_NAMES = frozenset(
    name for names in (*MODULES.values(), OF_THE_PACKAGE) if not isinstance(names, str) for name in names
).difference(*PREDEFINED.values())


class OldPath(ModuleSource):
    """Provides ``mx_driving.patcher`` and its modules, and ``mx_driving`` where that is not installed."""

    def provides(self, fullname: str) -> bool:
        return is_within(fullname, ROOT)

    def find_spec(self, fullname: str) -> ModuleSpec | None:
        if fullname == ROOT:
            return None if finder.real_spec(ROOT, None) is not None else _spec(ROOT)
        if fullname == PACKAGE or fullname[len(PACKAGE) + 1 :] in MODULES:
            return _spec(fullname)
        module_name, _, name = fullname.rpartition(".")
        if not _is_alias(sys.modules.get(module_name)):
            return None
        # `from module import name` comes here for a name that the module does not have: only here can the
        # reason become part of the error that the program sees.
        try:
            _looked_up(module_name, name)
        except ImportError as error:
            text = f"cannot import name {name!r} from {module_name!r}: {error}"
            raise ModuleNotFoundError(text, name=module_name) from error
        return None


def activate() -> None:
    """Let ``mx_driving.patcher`` mean this project from now on. Importing this module does it.

    Where the predecessor was imported already it is replaced, with a WARNING: what was taken from it by then stays.
    """
    if not finder.is_declared(ROOT, hidden=False):
        finder.add_source(OldPath(ROOT))
    foreign = [
        name for name, module in sys.modules.items() if is_within(name, PACKAGE) and not _is_alias(module)
    ]
    if not foreign:
        return
    for name in foreign:
        del sys.modules[name]
    package = importlib.import_module(PACKAGE)
    for name in OF_THE_ROOT:
        setattr(sys.modules[ROOT], name, getattr(package, name))
    patcher_logger.warning(
        f"{PACKAGE} was imported before its alias; what was taken from it by then is not this project's."
        f" Import {__name__} above the first import of {ROOT}"
    )


class _AliasLoader:
    """Makes a module whose names are looked up when they are asked for."""

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        module_name = module.__name__

        def __getattr__(name: str) -> Any:
            if name == "__all__":
                return _offered(module_name)
            if name.startswith("__"):
                raise AttributeError(f"module {module_name!r} has no attribute {name!r}")
            try:
                return vars(module).setdefault(name, _looked_up(module_name, name))
            except ImportError as error:
                raise AttributeError(f"module {module_name!r} has no attribute {name!r}: {error}") from error

        def __dir__() -> list[str]:
            return sorted({*vars(module), *_offered(module_name)})

        vars(module).update(__getattr__=__getattr__, __dir__=__dir__)
        if module_name == PACKAGE:
            patcher_logger.log_as(PACKAGE)
            self._give_names_before_modules(module)

    def _give_names_before_modules(self, package: ModuleType) -> None:
        """Import the modules that are called like a name of the package: later, one would take the name's place."""
        for name in _OWN_NAMES & MODULES.keys():
            importlib.import_module(f"{PACKAGE}.{name}")
            setattr(package, name, _own(name))


def _spec(fullname: str) -> ModuleSpec:
    loader: Any = _AliasLoader()
    return ModuleSpec(fullname, loader, origin=__name__, is_package=True)


def _is_alias(module: object) -> bool:
    return isinstance(getattr(getattr(module, "__spec__", None), "loader", None), _AliasLoader)


def _looked_up(module_name: str, name: str) -> Any:
    """What an old module has under ``name``; ImportError with the reason where it has nothing."""
    if module_name == ROOT:
        if name in OF_THE_ROOT:
            return _own(name)
        if name == "patcher":
            return importlib.import_module(PACKAGE)
        raise ImportError(
            f"{ROOT} is not installed; {__name__} stands in for its patcher, not for its operators"
        )
    contents = OF_THE_PACKAGE if module_name == PACKAGE else MODULES[module_name[len(PACKAGE) + 1 :]]
    if isinstance(contents, str):
        return predefined(contents, name)
    if name in contents or module_name == PACKAGE:
        return _own_or_predefined(name)
    raise ImportError(f"it has {', '.join(contents)}")


def _own_or_predefined(name: str) -> Any:
    if name in _OWN_NAMES:
        return _own(name)
    if name in MODULES:
        return importlib.import_module(f"{PACKAGE}.{name}")
    for distribution, names in PREDEFINED.items():
        if name in names or name in names_here(distribution):
            return predefined(distribution, name)
    near = difflib.get_close_matches(name, _offered(PACKAGE), 1)
    raise ImportError(f"no installed patch set has it{f'; did you mean {near[0]}?' if near else ''}")


def _own(name: str) -> Any:
    module_name, _, attribute = ELSEWHERE.get(name, f"patcher_core.{name}").rpartition(".")
    return getattr(importlib.import_module(module_name), attribute)


def _offered(module_name: str) -> list[str]:
    """The names that an old module has here, sorted."""
    if module_name == ROOT:
        return sorted(OF_THE_ROOT)
    offered = _OWN_NAMES.union(*(names_here(distribution) for distribution in PREDEFINED))
    if module_name == PACKAGE:
        return sorted(offered)
    contents = MODULES[module_name[len(PACKAGE) + 1 :]]
    return sorted(names_here(contents) if isinstance(contents, str) else offered.intersection(contents))


activate()
