"""Entry points of the patcher, and the patch sets that installed distributions bring.

A patch set registers itself in its ``pyproject.toml``, once for every library that it patches, under the name
by which the library is imported::

    [project.entry-points."patcher.patch_sets"]
    mmcv = "mmcv_patches"
    mmengine = "mmcv_patches"

so that it is imported only where such a library is. The ``entry_points.txt`` files are read here without
``importlib.metadata``, whose import alone costs a third of what a small program takes to start.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Callable, NamedTuple, Sequence, TypeVar

from .distributions import Distribution, Listing, listings
from .source_version import is_importable

if TYPE_CHECKING:
    from .requirements import Pins

__all__ = ["EntryPoint", "PatchSet", "entry_points", "patch_set_of", "patch_set_roots", "patch_sets"]

PATCH_SETS = "patcher.patch_sets"

#: The groups that are read; whatever else a file holds is passed over.
_GROUP_PREFIX = "patcher."


_Read = TypeVar("_Read")


class EntryPoint:
    """One line of an ``entry_points.txt``: ``name = module:attribute``."""

    __slots__ = ("attribute", "distribution", "group", "module", "name")

    def __init__(
        self, group: str, name: str, module: str, attribute: str | None, distribution: Distribution
    ) -> None:
        self.group = group
        self.name = name
        self.module = module
        self.attribute = attribute
        self.distribution = distribution

    @property
    def value(self) -> str:
        """What the line says is to be loaded."""
        return self.module if self.attribute is None else f"{self.module}:{self.attribute}"

    def load(self) -> object:
        """Import the module and give back what the entry point names. Raises whatever the module raises."""
        found: object = importlib.import_module(self.module)
        for attribute in self.attribute.split(".") if self.attribute else ():
            found = getattr(found, attribute)
        return found


class PatchSetContents(NamedTuple):
    """What the module of a patch set offers."""

    catalog: Sequence[object]  #: CATALOG: every class
    all: Sequence[object]  #: ALL: what can be enabled together
    default: Sequence[object]  #: DEFAULT: what ``default_patcher`` enables


class PatchSet:
    """An installed patch set. Knowing of it imports nothing; :meth:`load` imports its module."""

    def __init__(self, distribution: Distribution, module: str, libraries: Sequence[str]) -> None:
        self.distribution = distribution
        self.module = module  #: what is imported
        self.libraries = tuple(libraries)  #: import roots of what it patches
        self.error: BaseException | None = None  #: why :meth:`load` gave None
        self._contents: PatchSetContents | None = None
        self._pins: Pins | None = None

    def load(self) -> PatchSetContents | None:
        """The contents of the set; None where it fails to load, with the cause in :attr:`error`.

        A failure is remembered: the module is imported once.
        """
        if self._contents is None:
            self._contents = self._read(_contents)
        return self._contents

    def load_default(self) -> Sequence[object] | None:
        """The ``DEFAULT`` of the set alone: a set may leave the rest unloaded. None as for :meth:`load`."""
        return self._read(lambda module: _classes(module, "DEFAULT"))

    def _read(self, read: Callable[[object], _Read]) -> _Read | None:
        if self.error is None:
            try:
                return read(importlib.import_module(self.module))
            except (Exception, SystemExit) as error:
                self.error = error
        return None

    def has_library(self) -> bool:
        """Whether one of its libraries is here. Nothing is imported; what is imported already is asked first."""
        return any(map(is_importable, sorted(self.libraries, key=lambda library: library not in sys.modules)))

    def pins(self) -> Pins:
        """The upstream versions that the set was verified against. Raises ValueError for a malformed pin."""
        if self._pins is None:
            from .requirements import read_pins

            self._pins = read_pins(self.distribution)
        return self._pins

    def has_module(self, module_name: str) -> bool:
        """Whether the module of that name is in the top-level package of this set."""
        return module_name.partition(".")[0] == self.module.partition(".")[0]

    def __repr__(self) -> str:
        name, version, _ = self.distribution
        return f"PatchSet({name!r}, {version!r}, {self.module!r}, {self.libraries!r})"


_read_groups: dict[str, tuple[Listing, dict[str, list[EntryPoint]]]] = {}
_known_sets: dict[tuple[Distribution, str, tuple[str, ...]], PatchSet] = {}


def entry_points(group: str) -> list[EntryPoint]:
    """The entry points of a group whose name starts with ``patcher.``, in the order of ``sys.path``.

    Of a distribution that is there twice, the first counts. Raises ValueError for other groups: they are not
    read.
    """
    if not group.startswith(_GROUP_PREFIX):
        raise ValueError(
            f"entry points are read in groups that start with {_GROUP_PREFIX!r}, not in {group!r}"
        )
    found: list[EntryPoint] = []
    seen: set[str] = set()
    for listing in listings():
        found += [entry for entry in _entries(listing).get(group, ()) if entry.distribution.name not in seen]
        seen.update(listing.distributions)
    return found


def patch_sets() -> list[PatchSet]:
    """The installed patch sets, sorted by the name of their distribution. Nothing is imported."""
    libraries: dict[tuple[Distribution, str], list[str]] = {}
    for entry in entry_points(PATCH_SETS):
        libraries.setdefault((entry.distribution, entry.value), []).append(entry.name)
    sets = []
    for (distribution, module), names in sorted(libraries.items()):
        key = (distribution, module, tuple(names))
        sets.append(_known_sets.setdefault(key, PatchSet(*key)))
    return sets


def patch_set_of(module_name: str) -> PatchSet | None:
    """The installed patch set that the module belongs to, if any. Nothing is imported."""
    return next((found for found in patch_sets() if found.has_module(module_name)), None)


def patch_set_roots() -> set[str]:
    """The top-level packages of all installed patch sets."""
    return {patch_set.module.partition(".")[0] for patch_set in patch_sets()}


def _entries(listing: Listing) -> dict[str, list[EntryPoint]]:
    known = _read_groups.get(listing.folder)
    if known is None or known[0] is not listing:
        groups: dict[str, list[EntryPoint]] = {}
        for distribution in listing.distributions.values():
            for entry in _read_entries(distribution):
                groups.setdefault(entry.group, []).append(entry)
        known = _read_groups[listing.folder] = (listing, groups)
    return known[1]


def _read_entries(distribution: Distribution) -> list[EntryPoint]:
    path = os.path.join(distribution.path, "entry_points.txt")
    try:
        with open(path, "rb") as stream:
            content = stream.read()
    except OSError:
        return []
    if _GROUP_PREFIX.encode() not in content:
        return []
    return _parse(content.decode("utf-8", errors="replace"), distribution, path)


def _parse(text: str, distribution: Distribution, path: str) -> list[EntryPoint]:
    entries: list[EntryPoint] = []
    group = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("[") and line.endswith("]"):
            group = line[1:-1].strip()
        elif line and line[0] not in "#;" and group.startswith(_GROUP_PREFIX):
            name, _, value = (part.strip() for part in line.partition("="))
            module, colon, attribute = (part.strip() for part in value.partition("[")[0].partition(":"))
            if name and _is_dotted(module) and (not colon or _is_dotted(attribute)):
                entries.append(EntryPoint(group, name, module, attribute or None, distribution))
            else:
                _report_malformed(line, distribution, path)
    return entries


def _is_dotted(name: str) -> bool:
    return all(segment.isidentifier() for segment in name.split("."))


def _report_malformed(line: str, distribution: Distribution, path: str) -> None:
    from .events import patcher_logger

    patcher_logger.warning(
        f"{distribution.name} {distribution.version}: the entry point {line!r} is not "
        f"'name = module:attribute' and is passed over; reinstall the distribution, or correct {path}"
    )


def _contents(module: object) -> PatchSetContents:
    catalog, everything, default = (_classes(module, name) for name in ("CATALOG", "ALL", "DEFAULT"))
    return PatchSetContents(catalog, everything, default)


def _classes(module: object, name: str) -> Sequence[object]:
    found = getattr(module, name, None)
    if not isinstance(found, (list, tuple)):
        raise TypeError(f"{module!r} must define {name} as a list or tuple of Patch classes; found {found!r}")
    return found
