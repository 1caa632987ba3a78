"""Fingerprints of source: is this function one that we know, wherever it was copied to?

A fingerprint is a hash of the parameters and the body of a function, and of everything of the same module that it
names: functions, classes, assignments at the top level, and the methods of its own class that it reads from ``self``.
It is taken from text; nothing is imported or run. Comments, annotations, docstrings, the layout of lines, the
function's decorators and its own name do not count (see :mod:`.source_tokens`). What a module imports from elsewhere
counts by its name only, and so does what a string or an f-string names.

Fingerprints are equal on CPython 3.8 to 3.13.
"""

from __future__ import annotations

import functools
import re
from types import FunctionType, MethodType, ModuleType
from typing import Iterator, NamedTuple, Sequence

from .source_scan import Definition, SourceScan
from .source_tokens import Token, significant_tokens

#: Hexadecimal digits of a fingerprint: 64 bits tell the few hundred sources of one function apart.
_DIGITS = 16


class SourceFingerprint(NamedTuple):
    """A function or class as it stands in a text."""

    qualname: str
    line: int  #: of ``def`` or ``class``, counted from 1
    fingerprint: str
    helpers: tuple[str, ...]  #: what else of the module is in the fingerprint, sorted


class NoSource(NamedTuple):
    """There is no source text to take a fingerprint of."""

    name: str
    reason: str


def definitions(source: str, names: str = "*") -> list[SourceFingerprint]:
    """The definitions in a module's source whose qualified name matches the glob ``names``, from top to
    bottom.

    ``*RMSNorm.forward`` finds methods, ``rotate_half`` a function. Only what matches, and what it names, is
    read. What is defined inside a function has no name to be found by.

    Raises TypeError where an argument is not text, ValueError where a definition that matches is not valid
    Python.
    """
    for argument, value in (("source", source), ("names", names)):
        if not isinstance(value, str):
            raise TypeError(f"{argument} must be text, got {value!r}")
    if not _may_define(source, names):
        return []
    module = _module_source(source)
    return [
        module.fingerprint(*found)
        for found in module.scan.matching(_compiled(names), _literal_parts(names)[1])
    ]


def module_source(module: ModuleType) -> str | NoSource:
    """The source text of an imported module, from its loader, so that archives work as well."""
    attributes = object.__getattribute__(module, "__dict__")
    name = str(attributes.get("__name__"))
    spec = attributes.get("__spec__")
    loader = getattr(spec, "loader", None) or attributes.get("__loader__")
    get_source = getattr(loader, "get_source", None)
    if get_source is None:
        return NoSource(name, f"the loader of {name} gives no source")
    try:
        source = get_source(getattr(spec, "name", name))
    except (ImportError, OSError, SyntaxError, UnicodeDecodeError) as error:
        return NoSource(name, f"the source of {name} cannot be read: {error}")
    return (
        source if source is not None else NoSource(name, f"{name} has no source: it is compiled or built in")
    )


def function_fingerprint(function: object) -> SourceFingerprint | NoSource:
    """The fingerprint of a function that is imported, behind descriptors and the decorators in its source.

    A function that something wrapped at run time is not the one in the source: it has none.
    """
    plain, wrappers = _plain_function(function)
    if plain is None:
        return NoSource(repr(function), f"{function!r} is not a Python function")
    import linecache

    code = plain.__code__
    name = f"{plain.__module__}.{plain.__qualname__}"
    linecache.checkcache(code.co_filename)
    source = "".join(linecache.getlines(code.co_filename, plain.__globals__))
    if not source:
        return NoSource(name, f"the source of {name}, {code.co_filename}, is not there")
    first_line = code.co_firstlineno  # of the first decorator, where there is one
    found = [known for known in definitions(source, plain.__qualname__) if known.line >= first_line]
    if not found:
        return NoSource(name, f"{name} is not found at line {first_line} of {code.co_filename} by that name")
    if wrappers and found[0].line == first_line:
        return NoSource(name, f"{name} is wrapped by {wrappers[0]!r}, which its source does not say")
    return found[0]


@functools.lru_cache(maxsize=1)
def _module_source(source: str) -> _ModuleSource:
    """Kept for the next pattern that is looked for in the same module."""
    return _ModuleSource(source.replace("\r\n", "\n") if "\r" in source else source)


class _ModuleSource:
    """One module's text, and the tokens of what was looked at in it."""

    def __init__(self, text: str) -> None:
        self.scan = SourceScan(text)
        self._tokens: dict[int, tuple[Token, ...]] = {}

    def fingerprint(self, definition: Definition, qualname: str) -> SourceFingerprint:
        owner = None if definition.is_class else qualname.rpartition(".")[0] or None
        tokens = self._tokens_at(definition.start, definition.name)
        helpers = self._reach(tokens, definition, owner)
        parts = ["", *_texts(tokens)]
        for label in sorted(helpers):
            parts += ["", label, *_texts(helpers[label])]
        line = self.scan.line_number(definition)
        return SourceFingerprint(qualname, line, _digest(parts), tuple(sorted(helpers)))

    def _reach(
        self, tokens: Sequence[Token], definition: Definition, owner: str | None
    ) -> dict[str, Sequence[Token]]:
        """Everything of the module that the tokens name, and what that names in turn."""
        reached: dict[str, Sequence[Token]] = {}
        waiting = [tokens]
        while waiting:
            for label, name, starts in self._named_in(waiting.pop(), owner):
                if label not in reached and definition.start not in starts:
                    found = [found for start in starts for found in self._tokens_at(start, name)]
                    reached[label] = found
                    waiting.append(found)
        return reached

    def _named_in(self, tokens: Sequence[Token], owner: str | None) -> Iterator[tuple[str, str, list[int]]]:
        """Label, name and places of what the tokens name: ``helper``, or ``self.helper`` of the class ``owner``."""
        texts = ["", "", *_texts(tokens)]
        names = dict.fromkeys(
            (token.text, texts[index] if texts[index + 1] == "." else None)
            for index, token in enumerate(tokens)
            if token.is_name
        )
        for name, holder in names:
            starts: list[int] = []
            if holder is None:
                label, starts = name, self.scan.top_level(name)
            elif owner is not None and holder in ("self", "cls"):
                label, starts = f"self.{name}", self._methods(owner, name)
            if starts:
                yield label, name, starts

    def _methods(self, owner: str, name: str) -> list[int]:
        """The definitions of a method in a class of the module, or in the nearest bases that are there as well."""
        candidates = self.scan.named(name)
        waiting, seen = [owner], set()
        while waiting and candidates:
            owner = waiting.pop(0)
            found = [known.start for known in candidates if self.scan.qualname(known) == f"{owner}.{name}"]
            if found:
                return found
            seen.add(owner)
            waiting += [base for base in self._bases(owner) if base not in seen]
        return []

    def _bases(self, qualname: str) -> list[str]:
        found = self.scan.named(qualname.rpartition(".")[2])
        return [
            base
            for known in found
            if self.scan.qualname(known) == qualname
            for base in self.scan.bases(known)
        ]

    def _tokens_at(self, start: int, name: str) -> tuple[Token, ...]:
        if start not in self._tokens:
            try:
                end = self.scan.end_of_block(start)
                self._tokens[start] = significant_tokens(self.scan.text, start, end, name)
            except ValueError as error:
                line = self.scan.text.count("\n", 0, start) + 1
                raise ValueError(f"the source of {name} (line {line}) cannot be read: {error}") from error
        return self._tokens[start]


def _texts(tokens: Sequence[Token]) -> list[str]:
    return [token.text for token in tokens]


def _digest(parts: list[str]) -> str:
    import hashlib

    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]


@functools.lru_cache(maxsize=None)
def _compiled(glob: str) -> re.Pattern[str]:
    import fnmatch

    return re.compile(fnmatch.translate(glob))


def _may_define(source: str, glob: str) -> bool:
    """Whether the source contains what every source with a match contains. Most modules are done with here."""
    literal_parts, last = _literal_parts(glob)
    if not all(part in source for part in literal_parts):
        return False
    return last is None or f"def {last}" in source or f"class {last}" in source


@functools.lru_cache(maxsize=None)
def _literal_parts(glob: str) -> tuple[list[str], str | None]:
    """The parts of a glob that stand for themselves, and the last name where it is one of them."""
    last = glob.rpartition(".")[2]
    parts = [part for part in re.split(r"[*?.]|\[[^]]*\]", glob) if part]
    return parts, last if last.isidentifier() else None


def _plain_function(function: object) -> tuple[FunctionType | None, list[object]]:
    """The innermost Python function, and the wrappers around it. Static: no foreign code runs."""
    wrappers: list[object] = []
    seen: set[int] = set()
    while id(function) not in seen:
        seen.add(id(function))
        if isinstance(function, (staticmethod, classmethod, MethodType)):
            function = function.__func__
            continue
        try:
            wrapped = object.__getattribute__(function, "__dict__").get("__wrapped__")
        except AttributeError:
            wrapped = None
        if wrapped is None:
            break
        wrappers.append(function)
        function = wrapped
    return (function if isinstance(function, FunctionType) else None), wrappers
