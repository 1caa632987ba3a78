"""Patch sets and patches by the names that a user writes, and the patcher that a configuration describes."""

from __future__ import annotations

import difflib
from typing import Any, Iterable, Iterator, NamedTuple, Sequence

from .configuration import Configuration
from .discovery import PatchSet, PatchSetContents, patch_sets
from .distributions import normalized
from .entries import check_conflicts, entry_of
from .patcher import Patcher


class UnknownName(ValueError):
    """No installed patch set has what was named; the text has the nearest name."""


class CatalogEntry(NamedTuple):
    """One class in the catalogue of a patch set."""

    patch_set: PatchSet
    patch: Any

    @property
    def name(self) -> str:
        return str(self.patch.name)

    @property
    def qualified_name(self) -> str:
        """``distribution:name``, unique where the name alone is not."""
        return f"{self.patch_set.distribution.name}:{self.name}"

    @property
    def names(self) -> set[str]:
        """Everything that it may be called."""
        plain = {self.name, self.patch.__name__, getattr(self.patch, "legacy_name", "")} - {""}
        return plain | {f"{self.patch_set.distribution.name}:{name}" for name in plain}


class ChosenPatches(PatchSet):
    """Part of a patch set, in the place of its ``DEFAULT``; like it, loaded once its library is here."""

    def __init__(self, whole: PatchSet, *, everything: bool, names: Sequence[str]) -> None:
        super().__init__(whole.distribution, whole.module, whole.libraries)
        self._whole = whole
        self._everything = everything
        self._names = tuple(names)

    def load(self) -> PatchSetContents | None:
        contents = self._whole.load()
        self.error = self._whole.error
        if contents is None:
            return None
        chosen = list(contents.all) if self._everything else []
        named = [
            patch for patch in contents.catalog if CatalogEntry(self._whole, patch).names & {*self._names}
        ]
        return contents._replace(default=[*chosen, *(patch for patch in named if patch not in chosen)])

    def load_default(self) -> Sequence[object] | None:
        contents = self.load()
        return None if contents is None else contents.default


def find_set(name: str) -> PatchSet:
    """The installed patch set of that distribution, module or patched library.

    Raises:
        UnknownName: there is none.
    """
    sets = patch_sets()
    for patch_set in sets:
        if normalized(name) in map(
            normalized, (patch_set.distribution.name, patch_set.module, *patch_set.libraries)
        ):
            return patch_set
    known = [text for patch_set in sets for text in (patch_set.distribution.name, *patch_set.libraries)]
    raise UnknownName(
        f"no installed patch set is called {name!r}, or patches a library of that name{_nearest(name, known)}; "
        "`patcher list` shows what is installed"
    )


def catalog() -> Iterator[CatalogEntry]:
    """All patches of all installed sets that load."""
    for patch_set in patch_sets():
        contents = patch_set.load()
        for patch in contents.catalog if contents is not None else ():
            yield CatalogEntry(patch_set, patch)


def find_patch(name: str) -> CatalogEntry:
    """The patch of that name in any installed set; ``distribution:name`` where several have it.

    Raises:
        UnknownName: there is none, or more than one.
    """
    entries = list(catalog())
    found = [entry for entry in entries if name in entry.names]
    if len(found) == 1:
        return found[0]
    if found:
        choices = " or ".join(entry.qualified_name for entry in found)
        raise UnknownName(f"{name!r} is in several patch sets; write {choices}")
    broken = [
        f"{patch_set.distribution.name} ({patch_set.error})"
        for patch_set in patch_sets()
        if patch_set.error is not None
    ]
    hint = f"; not loaded: {', '.join(broken)}" if broken else ""
    known = [known for entry in entries for known in entry.names]
    raise UnknownName(
        f"no installed patch set has a patch {name!r}{_nearest(name, known)}{hint}; `patcher list` shows all"
    )


def resolved(configuration: Configuration) -> Configuration:
    """The configuration with every name of a set or patch written so that it can be found without searching.

    Raises:
        UnknownName: something is not there.
    """
    return configuration._replace(
        sets=tuple(dict.fromkeys(find_set(name).distribution.name for name in configuration.sets)),
        patches=tuple(dict.fromkeys(find_patch(name).qualified_name for name in configuration.patches)),
    )


def chosen_sets(configuration: Configuration) -> list[PatchSet]:
    """What a resolved configuration applies: the named sets and patches, or the ``DEFAULT`` of every set."""
    if not configuration.sets and not configuration.patches:
        return patch_sets()
    chosen: list[PatchSet] = []
    for patch_set in patch_sets():
        prefix = f"{patch_set.distribution.name}:"
        names = [name for name in configuration.patches if name.startswith(prefix)]
        everything = patch_set.distribution.name in configuration.sets
        if names or everything:
            chosen.append(ChosenPatches(patch_set, everything=everything, names=names))
    return chosen


def conflict(configuration: Configuration) -> str:
    """What a resolved configuration names together although it excludes one another; "" where nothing does."""
    loaded = [patch_set.load() for patch_set in chosen_sets(configuration)]
    entries = [entry_of(patch) for contents in loaded if contents is not None for patch in contents.default]
    text = check_conflicts([entry for entry in entries if not entry.names & {*configuration.disabled}])
    return f"{text.partition('. ')[0]}; leave one of them out with --disable" if text else ""


def configured_patcher(configuration: Configuration, *, controls_loop: bool = True) -> Patcher:
    """A patcher with everything that a resolved configuration says; import control acts at once.

    The predecessor's import path is active from then on, as programs written for it expect.

    Args:
        controls_loop: whether profiling and early stop concern this process.

    Raises:
        ValueError, TypeError: naming what cannot be.
    """
    from .compat import mx_driving

    mx_driving.activate()
    patcher = Patcher(backend=configuration.backend or None, name="patcher run")
    if configuration.skipped_imports:
        patcher.skip_import(*configuration.skipped_imports)
    for old, new in configuration.replaced_imports:
        patcher.replace_import(old, new)
    patcher.add(*chosen_sets(configuration)).disable(*configuration.disabled)
    if controls_loop and configuration.profile:
        patcher.with_profiling(configuration.profile)
    if controls_loop and configuration.brake_at:
        patcher.brake_at(configuration.brake_at)
    return patcher


def _nearest(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(dict.fromkeys(known)), 1)
    return f"; did you mean {near[0]!r}?" if near else ""
