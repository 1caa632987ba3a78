"""The one meta-path finder, and what is declared for module names.

It answers for three kinds of names and for no others:

* names that a :class:`ModuleSource` provides (a skipped or replaced module),
* their parent packages, which stay real where they exist and are synthesised where they do not,
* names whose import somebody observes (see ``post_import``): the real spec, with a loader that notifies.

For every other import it costs one call and one dict lookup. It holds no lock while foreign code runs.
"""

from __future__ import annotations

import sys
import types
from _thread import RLock, _local
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, Any

from .loaders import notify_after_exec
from .made_modules import made_modules
from .names import is_within

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_MISSING = object()


class ModuleSource:
    """Provides the module ``name``, and possibly modules below it, in place of whatever is really there."""

    #: Whether availability probes shall call the modules absent.
    hidden = False

    def __init__(self, name: str) -> None:
        self.name = name

    def provides(self, fullname: str) -> bool:
        """True if an import of ``fullname`` is answered by this source."""
        return fullname == self.name

    def find_spec(self, fullname: str) -> ModuleSpec | None:
        """The spec of ``fullname``, which this source provides; None if the real module shall be taken."""
        raise NotImplementedError

    def attribute(self) -> Any:
        """What stands for ``name`` in a synthesised parent before the module itself is imported."""
        raise AttributeError(self.name)


class Observer:
    """Is called with a module right after its code ran."""

    def __init__(self, callback: Callable[[types.ModuleType], object]) -> None:
        self.callback = callback
        self.is_cancelled = False

    def observes(self, fullname: str) -> bool:
        """Whether an observer of a pattern wants ``fullname``."""
        raise NotImplementedError


class _Root:
    """Everything declared for names that share their first segment."""

    def __init__(self) -> None:
        self.sources: tuple[ModuleSource, ...] = ()
        self.observers: dict[str, tuple[Observer, ...]] = {}
        self.pattern_observers: tuple[Observer, ...] = ()

    def is_empty(self) -> bool:
        return not (self.sources or self.observers or self.pattern_observers)

    def source_of(self, fullname: str) -> ModuleSource | None:
        for source in self.sources:
            if source.provides(fullname):
                return source
        return None

    def sources_below(self, fullname: str) -> list[ModuleSource]:
        return [source for source in self.sources if source.name.startswith(fullname + ".")]

    def observers_of(self, fullname: str) -> list[Observer]:
        by_pattern = [observer for observer in self.pattern_observers if observer.observes(fullname)]
        return [*self.observers.get(fullname, ()), *by_pattern]


class _PackageLoader:
    """Loads an empty package that exists only so that a declared module below it can be imported."""

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        fullname = module.__name__

        def __getattr__(name: str) -> Any:
            source = finder.source_of(f"{fullname}.{name}")
            try:
                value = source.attribute() if source is not None else _MISSING
            except AttributeError:
                value = _MISSING
            if value is _MISSING:
                raise AttributeError(f"module {fullname!r} has no attribute {name!r}")
            return vars(module).setdefault(name, value)

        vars(module)["__getattr__"] = __getattr__
        made_modules.record(module, self)


class ImportFinder:
    """A meta-path finder (PEP 451) driven by declarations; in ``sys.meta_path`` only while there are any."""

    def __init__(self) -> None:
        self._roots: dict[str, _Root] = {}
        # Reentrant: a finalizer may run, and import, whenever memory is allocated.
        self._lock = RLock()
        self._searching = _local()
        self._distribution_probe: Callable[[Any], None] | None = None

    # ------------------------------------------------------------------ protocol of sys.meta_path
    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a declared module, of a parent of one, or of an observed module; None otherwise."""
        root = self._roots.get(fullname.partition(".")[0])
        if root is None:
            return None
        source = root.source_of(fullname)
        if source is not None and source.hidden:
            return source.find_spec(fullname)
        spec = None if source is None else source.find_spec(fullname)
        observed = bool(root.observers_of(fullname))
        is_parent = bool(root.sources_below(fullname))
        if spec is None and (observed or is_parent):
            spec = self.real_spec(fullname, path, target)
        if spec is None and is_parent:
            spec = ModuleSpec(fullname, _PackageLoader(), is_package=True)  # type: ignore[arg-type]
        if spec is not None and observed:
            notify_after_exec(spec, self._notify)
        return spec

    def find_distributions(self, context: Any) -> Iterator[Any]:
        """Part of the importlib.metadata protocol: no distribution is found here, but one may be hidden."""
        if self._distribution_probe is not None and context.name is not None:
            self._distribution_probe(context)
        return iter(())

    def invalidate_caches(self) -> None:
        """Nothing is cached."""

    def real_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        """What the finders behind this one say."""
        searching = self._searching.__dict__.setdefault("names", set())
        if fullname in searching:
            return None  # one of them searches the whole meta path, this finder included
        searching.add(fullname)
        try:
            finders = list(sys.meta_path)
            for other in finders[finders.index(self) + 1 :] if self in finders else finders:
                spec = _spec_from(other, fullname, path, target)
                if spec is not None:
                    return spec
            return None
        finally:
            searching.discard(fullname)

    def _notify(self, fullname: str) -> None:
        root = self._roots.get(fullname.partition(".")[0])
        # A module may put another object into sys.modules while it runs: that one is what importers see.
        module = sys.modules.get(fullname)
        if root is not None and module is not None:
            for observer in root.observers_of(fullname):
                if not observer.is_cancelled:
                    observer.callback(module)

    # ------------------------------------------------------------------ declarations
    def source_of(self, fullname: str) -> ModuleSource | None:
        """The source that provides ``fullname``, the most specific one where several do."""
        root = self._roots.get(fullname.partition(".")[0])
        return None if root is None else root.source_of(fullname)

    def has_sources_below(self, fullname: str) -> bool:
        """True if a module below ``fullname`` is declared."""
        root = self._roots.get(fullname.partition(".")[0])
        return root is not None and bool(root.sources_below(fullname))

    def is_declared(self, fullname: str, *, hidden: bool | None = None) -> bool:
        """True if ``fullname`` or something below it was declared itself (as hidden or not; None: either)."""
        root = self._roots.get(fullname.partition(".")[0])
        sources = root.sources if root is not None else ()
        return any(is_within(source.name, fullname) and hidden in (None, source.hidden) for source in sources)

    def is_hidden(self, fullname: str) -> bool:
        """True if probes shall call ``fullname`` absent."""
        source = self.source_of(fullname)
        return source is not None and source.hidden

    def is_synthesised_for_hidden(self, spec: ModuleSpec) -> bool:
        """True if ``spec`` is that of a synthesised package below which only hidden modules are declared."""
        root = self._roots.get(spec.name.partition(".")[0])
        if root is None or not isinstance(spec.loader, _PackageLoader):
            return False
        return all(source.hidden for source in root.sources_below(spec.name))

    def hidden_sources(self) -> list[ModuleSource]:
        """All sources whose modules probes shall call absent."""
        return [source for root in list(self._roots.values()) for source in root.sources if source.hidden]

    def add_source(self, source: ModuleSource) -> None:
        """Let ``source`` answer from now on; it goes before equal or less specific names declared earlier."""
        with self._lock:
            root = self._root(source.name)
            ordered = sorted((source, *root.sources), key=lambda each: -each.name.count("."))
            root.sources = tuple(ordered)
            self._ensure_first()

    def remove_source(self, source: ModuleSource) -> None:
        """Forget ``source``, and remove the modules it made and the synthesised parents nobody needs now."""
        with self._lock:
            root = self._root(source.name)
            root.sources = tuple(each for each in root.sources if each is not source)
            self._drop_if_empty(source.name)
        made_modules.remove(
            lambda made: (
                made.maker is source
                or (isinstance(made.maker, _PackageLoader) and not self.has_sources_below(made.name))
            )
        )

    def add_observer(self, name: str, observer: Observer, *, is_pattern: bool) -> None:
        """Call ``observer`` after imports of ``name``; of all names it observes if ``name`` is a pattern."""
        with self._lock:
            root = self._root(name)
            if is_pattern:
                root.pattern_observers += (observer,)
            else:
                root.observers[name] = (*root.observers.get(name, ()), observer)
            self._ensure_first()

    def remove_observer(self, name: str, observer: Observer) -> None:
        """Forget ``observer``; nothing happens if it is not there."""
        with self._lock:
            root = self._root(name)
            root.pattern_observers = tuple(each for each in root.pattern_observers if each is not observer)
            remaining = tuple(each for each in root.observers.pop(name, ()) if each is not observer)
            if remaining:
                root.observers[name] = remaining
            self._drop_if_empty(name)

    def set_distribution_probe(self, probe: Callable[[Any], None] | None) -> None:
        """Call ``probe`` with each search for a named distribution; it raises to say that there is none."""
        with self._lock:
            self._distribution_probe = probe
            if probe is not None:
                self._ensure_first()
            else:
                self._leave_if_unneeded()

    def ensure_installed(self) -> None:
        """Go back to the first place of ``sys.meta_path`` if somebody moved or removed this finder."""
        with self._lock:
            if self._is_needed():
                self._ensure_first()

    def _root(self, name: str) -> _Root:
        return self._roots.setdefault(name.partition(".")[0], _Root())

    def _drop_if_empty(self, name: str) -> None:
        first_segment = name.partition(".")[0]
        if self._roots[first_segment].is_empty():
            del self._roots[first_segment]
        self._leave_if_unneeded()

    def _is_needed(self) -> bool:
        return bool(self._roots) or self._distribution_probe is not None

    def _leave_if_unneeded(self) -> None:
        if not self._is_needed() and self in sys.meta_path:
            sys.meta_path = self._others()

    def _ensure_first(self) -> None:
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)
        elif sys.meta_path[0] is not self:
            sys.meta_path = [self, *self._others()]

    def _others(self) -> list[Any]:
        # A new list: an import in another thread that walks along the old one would miss the finder after a
        # deleted one, and call a module absent.
        return [each for each in sys.meta_path if each is not self]


def _spec_from(
    other: Any, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None
) -> ModuleSpec | None:
    if hasattr(other, "find_spec"):
        spec: ModuleSpec | None = other.find_spec(fullname, path, target)
        return spec
    if sys.version_info >= (3, 12) or not hasattr(other, "find_module"):
        return None
    from importlib.util import spec_from_loader

    loader = other.find_module(fullname, path)
    return None if loader is None else spec_from_loader(fullname, loader)


#: The finder of this process.
finder = ImportFinder()


def installed_spec(name: str) -> ModuleSpec | None:
    """Where the installation itself has the top-level module ``name``; None where it has none.

    What a patcher supplies, skips or replaces does not count. Nothing is imported.
    """
    return finder.real_spec(name, None)
