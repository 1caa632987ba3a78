"""The environment of a fresh process: as it is here, without the library, or with the library in another version.

Absence is real: where a folder of `sys.path` holds the library, a folder of links to all its other contents takes its
place.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Sequence

#: lower than any pin's lower bound
OTHER_VERSION = "0.0.1"


def search_path() -> list[str]:
    """`sys.path` of this process, without the folder of the script that runs."""
    return [os.path.abspath(entry) for entry in sys.path if entry]


def without_libraries(libraries: Sequence[str], scratch: Path) -> list[str]:
    """A search path on which neither the libraries nor their metadata are."""
    return [
        _without(entry, libraries, scratch / f"path{number}", None)
        for number, entry in enumerate(search_path())
    ]


def with_other_version(libraries: Sequence[str], scratch: Path) -> list[str]:
    """A search path on which the libraries' metadata name version 0.0.1."""
    return [
        _without(entry, libraries, scratch / f"path{number}", OTHER_VERSION)
        for number, entry in enumerate(search_path())
    ]


def _without(entry: str, libraries: Sequence[str], links: Path, version: str | None) -> str:
    """`entry` itself if it holds none of the libraries, else a folder of links."""
    folder = Path(entry)
    if not folder.is_dir():
        return entry
    own = [path for path in folder.iterdir() if path.name.partition(".")[0] in libraries]
    metadata = [path for path in folder.glob("*.dist-info") if _describes(path, libraries)]
    if not own and not metadata:
        return entry
    links.mkdir()
    left_out = {path.name for path in metadata} | ({path.name for path in own} if version is None else set())
    for path in folder.iterdir():
        if path.name not in left_out and path.name != "__pycache__":
            (links / path.name).symlink_to(path)
    if version is not None:
        for path in metadata:
            _write_metadata(path, links, version)
    return str(links)


def _describes(dist_info: Path, libraries: Sequence[str]) -> bool:
    """Do these metadata belong to one of the libraries: by name, or by the files that were installed?"""
    name = re.split(r"-\d", dist_info.name)[0].lower().replace("-", "_")
    if name in {library.lower() for library in libraries}:
        return True
    record = dist_info / "RECORD"
    if not record.is_file():
        return False
    roots = tuple(f"{library}/" for library in libraries)
    return any(
        line.startswith(roots) for line in record.read_text(encoding="utf-8", errors="replace").splitlines()
    )


def _write_metadata(dist_info: Path, links: Path, version: str) -> None:
    text = (dist_info / "METADATA").read_text(encoding="utf-8", errors="replace")
    name = re.split(r"-\d", dist_info.name)[0]
    changed = links / f"{name}-{version}.dist-info"
    changed.mkdir()
    (changed / "METADATA").write_text(re.sub(r"(?m)^Version: .*$", f"Version: {version}", text, count=1))
    for other in ("RECORD", "entry_points.txt", "top_level.txt"):
        if (dist_info / other).is_file():
            (changed / other).symlink_to(dist_info / other)
