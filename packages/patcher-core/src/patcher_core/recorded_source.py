"""The source of what stands at a target, in a form that can be kept in a file and compared later."""

from __future__ import annotations

import ast
import inspect
import sys
from typing import Any, Iterator, NamedTuple

from .attributes import ABSENT, is_class
from .descriptors import underlying
from .fingerprints import NoSource, SourceFingerprint, definitions, function_fingerprint, module_source


class RecordedSource(NamedTuple):
    """What is kept of one target.

    Attributes:
        fingerprint: of its source and of every helper of the same module that it names; "" where there is none.
        lines: the text of all that.
        reason: why there is no fingerprint.
        is_absent: whether there is nothing at the target.
    """

    fingerprint: str
    lines: tuple[str, ...] = ()
    reason: str = ""
    is_absent: bool = False


def recorded_source(raw: Any) -> RecordedSource:
    """The source of a raw value, behind a descriptor."""
    if raw is ABSENT:
        return RecordedSource("", reason="there is no such attribute", is_absent=True)
    value = underlying(raw)
    if not is_class(value) and not callable(value):
        return RecordedSource("", reason=f"a {type(value).__name__} has no source")
    found = _class_fingerprint(value) if is_class(value) else function_fingerprint(value)
    if isinstance(found, NoSource):
        return RecordedSource("", reason=found.reason)
    return RecordedSource(found.fingerprint, tuple(_lines(value, found)))


def _class_fingerprint(cls: type) -> SourceFingerprint | NoSource:
    module = sys.modules.get(cls.__module__)
    if module is None:
        return NoSource(cls.__qualname__, f"the module {cls.__module__} of {cls.__qualname__} is not there")
    source = module_source(module)
    if isinstance(source, NoSource):
        return source
    found = definitions(source, cls.__qualname__)
    return (
        found[-1] if found else NoSource(cls.__qualname__, f"{cls.__qualname__} is not defined in {module}")
    )


def _lines(value: Any, found: SourceFingerprint) -> Iterator[str]:
    """The text of the definition, and of the helpers under it."""
    plain = inspect.unwrap(value)
    yield from inspect.getsource(plain).splitlines()
    module = sys.modules.get(plain.__module__)
    source = module_source(module) if module is not None else None
    if not isinstance(source, str) or not found.helpers:
        return
    statements = list(_statements(ast.parse(source).body))
    for label in found.helpers:
        for owner, name, node in statements:
            is_method = label.startswith("self.")
            if name == label.replace("self.", "", 1) and bool(owner) == is_method:
                yield from ("", *(ast.get_source_segment(source, node, padded=True) or "").splitlines())


def _statements(body: list[ast.stmt], owner: str = "") -> Iterator[tuple[str, str, ast.stmt]]:
    """The class around, name and node of every definition and assignment outside functions."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield owner, node.name, node
            if isinstance(node, ast.ClassDef):
                yield from _statements(node.body, f"{owner}.{node.name}" if owner else node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from ((owner, target.id, node) for target in targets if isinstance(target, ast.Name))
        elif isinstance(node, (ast.If, ast.Try, ast.With)):
            yield from _statements(node.body, owner)
            yield from _statements(getattr(node, "orelse", []), owner)
