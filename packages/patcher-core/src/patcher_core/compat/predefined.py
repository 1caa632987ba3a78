"""The names of the predefined patches, as the installed patch sets have them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Mapping, Sequence

from ..discovery import patch_sets
from ..legacy import legacy_functions

if TYPE_CHECKING:
    from ..discovery import PatchSet

#: What every patch set has under the same name.
_LISTS = frozenset(("CATALOG", "ALL", "DEFAULT", "LEGACY"))

_names_of_sets: dict[str, Mapping[str, Any]] = {}


def names_of(distribution: str) -> Mapping[str, Any]:
    """Everything that old programs can take from an installed patch set, by name.

    These are the classes of its ``CATALOG``, their 1.0 functions by ``legacy_name``, and what else its module exports.

    Raises:
        ImportError: the distribution is not installed, or does not load; the text says what to do.
    """
    if distribution not in _names_of_sets:
        patch_set = _installed(distribution)
        contents = patch_set.load()
        if contents is None:
            raise ImportError(f"{distribution} does not load: {patch_set.error!r}")
        module = importlib.import_module(patch_set.module)
        groups: Sequence[Any] = contents.catalog
        names = {name: getattr(module, name) for name in getattr(module, "__all__", ()) if name not in _LISTS}
        names.update({group.__name__: group for group in groups})
        names.update(legacy_functions(groups))
        _names_of_sets[distribution] = names
    return _names_of_sets[distribution]


def predefined(distribution: str, name: str) -> Any:
    """One of :func:`names_of` a patch set; ImportError where the set is not here or has no such name."""
    names = names_of(distribution)
    if name not in names:
        raise ImportError(
            f"{distribution} {_installed(distribution).distribution.version} has none of that name; upgrade it"
        )
    return names[name]


def names_here(distribution: str) -> Mapping[str, Any]:
    """:func:`names_of` a patch set; nothing where it is not installed or does not load."""
    try:
        return names_of(distribution)
    except ImportError:
        return {}


def _installed(distribution: str) -> PatchSet:
    for patch_set in patch_sets():
        if patch_set.distribution.name == distribution:
            return patch_set
    raise ImportError(f"{distribution} is not installed: pip install {distribution}")
