"""``patcher.lock``: what a model's patches were last seen to replace, to be compared after an upgrade.

It keeps, per model, the versions of patch sets and libraries, and the source of every target with its fingerprint,
which comments, annotations and layout do not change. It is JSON with one line for each line of source, so that a change
of the file reads well.
"""

from __future__ import annotations

import json
import os
from typing import Any, Iterable, Mapping, NamedTuple

from .attributes import TargetError
from .discovery import PatchSet
from .journal import journal
from .library_version import get_version
from .patcher import Patcher
from .recorded_source import RecordedSource, recorded_source
from .results import PatchStatus
from .targets import TargetAbsent, locate

FILE_NAME = "patcher.lock"
_FORMAT = 1

UNCHANGED, CHANGED, MISSING, NOT_COMPARABLE = "unchanged", "changed", "missing", "not comparable"


class LockError(ValueError):
    """The lock file cannot be used; the text says what to do."""


class TargetDrift(NamedTuple):
    """How one recorded target stands today.

    Attributes:
        status: unchanged, changed, missing, or not comparable.
        recorded, present: the lines of both sources.
        reason: why it is missing, or cannot be compared.
    """

    target: str
    patch: str
    status: str
    recorded: tuple[str, ...] = ()
    present: tuple[str, ...] = ()
    reason: str = ""


def describe_model(patcher: Patcher, sets: Iterable[PatchSet]) -> dict[str, Any]:
    """What a lock file keeps of a model whose patches ``patcher`` has applied."""
    targets = {}
    for result in patcher.report:
        is_target = "." in result.name and result.name != result.group
        if is_target and result.status is not PatchStatus.PENDING:
            source = present_source(result.name)
            targets[result.name] = {
                "patch": result.group or result.name,
                "fingerprint": source.fingerprint,
                "absent": source.is_absent,
                "source": list(source.lines),
            }
    sets = list(sets)
    return {
        "sets": {patch_set.distribution.name: patch_set.distribution.version for patch_set in sets},
        "libraries": present_versions(library for patch_set in sets for library in patch_set.libraries),
        "targets": dict(sorted(targets.items())),
    }


def present_versions(libraries: Iterable[str]) -> dict[str, str]:
    """The versions of those libraries that are here and tell."""
    versions = {library: get_version(library) for library in libraries}
    return {library: version for library, version in sorted(versions.items()) if version is not None}


def present_source(target: str) -> RecordedSource:
    """The source of what upstream has at a target, patched or not; its module is imported."""
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a module's __getattr__ may say that a name is deprecated
            present = locate(target).read()
    except TargetError as error:
        return RecordedSource("", reason=str(error), is_absent=isinstance(error, TargetAbsent))
    # Asked after the import, for which a patch may have waited.
    originals = {attribute.path: attribute.base for attribute in journal.attributes}
    return recorded_source(originals.get(target, present))


def drift(model: Mapping[str, Any]) -> list[TargetDrift]:
    """How the recorded targets stand today.

    To be asked with the patches applied, as when they were recorded: some of them make targets importable.
    """
    return [_drift_of(target, recorded) for target, recorded in model["targets"].items()]


def _drift_of(target: str, recorded: Mapping[str, Any]) -> TargetDrift:
    present = present_source(target)
    if present.is_absent and not recorded["absent"]:
        status = MISSING
    elif recorded["fingerprint"] != present.fingerprint or recorded["absent"] != present.is_absent:
        status = CHANGED
    else:
        status = UNCHANGED if present.fingerprint or present.is_absent else NOT_COMPARABLE
    reason = "" if status == UNCHANGED else present.reason
    return TargetDrift(target, recorded["patch"], status, tuple(recorded["source"]), present.lines, reason)


def read_lock(path: str) -> dict[str, Any]:
    """The models of a lock file, by name.

    Raises:
        LockError: it is not there, or no lock file that this version reads.
    """
    try:
        with open(path, encoding="utf-8") as stream:
            content = json.load(stream)
        if content["format"] != _FORMAT:
            raise LockError(f"{path} has format {content['format']}; write it anew with `patcher lock`")
        models: dict[str, Any] = content["models"]
    except FileNotFoundError:
        raise LockError(f"{path} is not there; write it with `patcher lock`") from None
    except (OSError, KeyError, TypeError, json.JSONDecodeError) as error:
        raise LockError(f"{path} is no lock file ({error!r}); write it anew with `patcher lock`") from error
    return models


def write_lock(path: str, name: str, model: Mapping[str, Any]) -> None:
    """Put one model into a lock file; others in it stay. The file is there whole, or as it was."""
    models = read_lock(path) if os.path.exists(path) else {}
    content = {"format": _FORMAT, "models": dict(sorted({**models, name: model}.items()))}
    with open(f"{path}.new", "w", encoding="utf-8") as stream:
        json.dump(content, stream, indent=1)
        stream.write("\n")
    os.replace(f"{path}.new", path)
