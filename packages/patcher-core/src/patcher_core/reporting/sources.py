"""The source of both sides of every patch that is in force, for reports."""

from __future__ import annotations

import inspect
from typing import Any

from ..attributes import ABSENT
from ..descriptors import underlying
from ..events import PatchError
from ..journal import Layer, journal
from .diffs import qualified_name


def patched_sources() -> dict[str, dict[str, dict[str, str]]]:
    """``{target: {"original": side, "replacement": side}}``; a side is described by :func:`described_side`."""
    found = {}
    for attribute in journal.attributes:
        found[attribute.path] = {
            "original": described_side(underlying(attribute.base)),
            "replacement": described_side(_replacement(attribute.layers[-1])),
        }
    return found


def described_side(value: Any) -> dict[str, str]:
    """Name, file and source text of one side; ``reason`` says why there is no text."""
    side = {"name": qualified_name(value), "file": "", "source": "", "reason": ""}
    if value is ABSENT:
        return side
    try:
        side["file"] = inspect.getsourcefile(value) or ""
        side["source"] = inspect.getsource(value)
    except (OSError, TypeError) as error:
        side["reason"] = str(error)
    return side


def _replacement(layer: Layer) -> Any:
    """What the patch's author wrote, not the dispatcher or wrapper that the engine made of it."""
    patch = layer.patch
    try:
        replacement = getattr(patch, "replacement", None)
    except PatchError:  # a path that resolved when it was written need not now
        replacement = None
    if replacement is None:
        replacement = getattr(patch, "target_wrapper", None)
    return underlying(layer.new if replacement is None else replacement)
