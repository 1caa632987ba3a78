"""Installed distributions, found by looking at the folders on ``sys.path``.

The name and version of a distribution stand in the name of its metadata folder
(``torch-2.13.0+cpu.dist-info``), so most questions need no file to be read. ``importlib.metadata`` would
answer the same, and costs a third of what a small program takes to start. Distributions inside zip archives
are not found.

Import control hides libraries here (:func:`hide_library`): a library that ``skip_import`` stubs must look
absent to version pins as it does to the libraries that probe for it.
"""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from typing import Iterator, NamedTuple

_METADATA_FILES = {".dist-info": "METADATA", ".egg-info": "PKG-INFO"}
_METADATA_SUFFIXES = tuple(_METADATA_FILES)


class Distribution(NamedTuple):
    """An installed distribution: normalized name, version, and metadata folder (of old ones, a file)."""

    name: str
    version: str
    path: str

    def read(self, file: str) -> str | None:
        """The text of a file in the metadata folder; None where there is none, or nothing readable."""
        try:
            with open(os.path.join(self.path, file), encoding="utf-8") as stream:
                return stream.read()
        except (OSError, UnicodeDecodeError):
            return None

    def metadata(self) -> str:
        """The text of METADATA or PKG-INFO; empty where it is missing."""
        if os.path.isfile(self.path):  # distutils wrote a file where others write a folder
            return _read(self.path)
        return _read(os.path.join(self.path, _METADATA_FILES[os.path.splitext(self.path)[1]]))

    def import_roots(self) -> set[str]:
        """The top-level names that the distribution installs, as far as its metadata tells."""
        listed = self.read("top_level.txt")
        if listed is not None:
            return set(listed.split())
        recorded = self.read("RECORD") or ""
        tops = (line.partition(",")[0].partition("/") for line in recorded.splitlines())
        roots = {top[:-3] if top.endswith(".py") and not slash else top for top, slash, _ in tops}
        return {root for root in roots if root.isidentifier()} or {self.name.replace("-", "_")}


class Listing:
    """The distributions in one folder, and the time of the folder's last change when it was looked at."""

    def __init__(self, folder: str, changed_ns: int) -> None:
        self.folder = folder
        self.changed_ns = changed_ns
        self.distributions = _look_into(folder)


_listings: dict[str, Listing] = {}

#: How often each import root is hidden.
_hidden: Counter[str] = Counter()


def normalized(name: str) -> str:
    """The one spelling of a distribution's name (packaging.python.org, "Names and normalization")."""
    return re.sub(r"[-_.]+", "-", name).lower()


def find_distribution(name: str) -> Distribution | None:
    """The first distribution of that name on ``sys.path``; None where it is absent or hidden."""
    wanted = normalized(name)
    for listing in listings():
        found = listing.distributions.get(wanted)
        if found is not None:
            return None if _is_hidden(found) else found
    return None


def listings() -> Iterator[Listing]:
    """The folders on ``sys.path`` in its order. A folder is looked at again when it has changed."""
    for entry in sys.path:
        listing = _listing(entry) if isinstance(entry, str) else None
        if listing is not None:
            yield listing


def hide_library(root: str) -> None:
    """Let the distributions that install the import root ``root`` look absent until :func:`show_library`."""
    _hidden[root] += 1


def show_library(root: str) -> None:
    """Take one :func:`hide_library` back."""
    _hidden[root] -= 1
    if _hidden[root] <= 0:
        del _hidden[root]


def is_library_hidden(root: str) -> bool:
    """Whether import control hides the library that is imported as ``root``."""
    return root in _hidden


def _is_hidden(distribution: Distribution) -> bool:
    return bool(_hidden) and not _hidden.keys().isdisjoint(distribution.import_roots())


def _listing(entry: str) -> Listing | None:
    try:
        folder = os.path.join(os.getcwd(), entry)
        changed_ns = os.stat(folder).st_mtime_ns
    except (OSError, ValueError):  # not there, or text that no path can hold
        return None
    known = _listings.get(folder)
    if known is None or known.changed_ns != changed_ns:
        known = _listings[folder] = Listing(folder, changed_ns)
    return known


def _look_into(folder: str) -> dict[str, Distribution]:
    try:
        entries = [entry for entry in os.listdir(folder) if entry.endswith(_METADATA_SUFFIXES)]
    except OSError:
        return {}
    found: dict[str, Distribution] = {}
    for entry in sorted(entries):
        stem, suffix = os.path.splitext(entry)
        distribution = _from_folder_name(stem, suffix, os.path.join(folder, entry))
        if distribution is not None:
            found.setdefault(distribution.name, distribution)
    return found


def _from_folder_name(stem: str, suffix: str, path: str) -> Distribution | None:
    # "name-version.dist-info"; "name-version-py3.8.egg-info" from setup.py install, "name.egg-info" beside a
    # source.
    parts = stem.split("-")
    name, version = parts[0], parts[1] if len(parts) > 1 else ""
    if suffix == ".dist-info" and len(parts) > 2:
        name, version = "-".join(parts[:-1]), parts[-1]
    found = Distribution(normalized(name), version, path)
    if not version:
        version = next(iter(headers(found.metadata(), "Version")), "")
    return found._replace(version=version) if name and version else None


def headers(metadata: str, name: str) -> list[str]:
    """The values of the header ``name`` in the text of a METADATA file; its description is not looked at."""
    start = f"{name}: "
    lines = metadata.partition("\n\n")[0].splitlines()
    return [line[len(start) :].strip() for line in lines if line.startswith(start)]


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""
