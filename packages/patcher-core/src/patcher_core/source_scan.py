"""Where the functions and classes of a module are defined, found in its text without parsing it.

Parsing a module of a model library takes tens of milliseconds, and a patch looks for one function in hundreds
of them. Here the text is searched for ``def`` and ``class``, and only a definition that is asked for is
placed: what encloses it is read off the indentation of the lines above. The text must be valid Python whose
continuation lines are not indented less than their statement.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import re
from typing import Iterator, NamedTuple

_STRING_OR_COMMENT = re.compile(
    r"""
    \#.*
    | \"\"\"[^"\\]*(?:(?:\\[\s\S]|"(?!""))[^"\\]*)*\"\"\"
    | \'\'\'[^'\\]*(?:(?:\\[\s\S]|'(?!''))[^'\\]*)*\'\'\'
    | "[^"\\\n]*(?:\\[\s\S][^"\\\n]*)*"
    | '[^'\\\n]*(?:\\[\s\S][^'\\\n]*)*'
    """,
    re.VERBOSE,
)
_BASES = re.compile(r"[ \t]*\(([^)]*)\)")
# Each begins with plain characters, so that the text between two matches is skipped quickly.
_ASSIGNMENT = re.compile(r"\n([^\W\d]\w*)[ \t]*(?::[^=\n]*)?=(?!=)")
_FUNCTION = re.compile(r"def[ \t]+(\w+)")
_CLASS = re.compile(r"class[ \t]+(\w+)")
_BEFORE_DEFINITION = re.compile(r"([ \t\f]*)(?:async[ \t]+)?")


class Definition(NamedTuple):
    """A ``def`` or ``class`` in a text. Positions are offsets of characters."""

    name: str
    is_class: bool
    line_start: int
    start: int  #: of ``def``, ``async`` or ``class``
    after_name: int

    @property
    def indent(self) -> int:
        return self.start - self.line_start


class SourceScan:
    """The definitions in one module's text, whose lines end with ``"\\n"``."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._strings = _strings_over_lines(text)
        self._string_starts = [start for start, _ in self._strings]
        self._at_line: dict[int, Definition] = {}
        self._by_name: dict[str, list[Definition]] = {}
        for definition in sorted(self._find_definitions(), key=lambda definition: definition.start):
            self._at_line[definition.line_start] = definition
            self._by_name.setdefault(definition.name, []).append(definition)
        self._qualnames: dict[int, str | None] = {}

    def matching(self, pattern: re.Pattern[str], last: str | None = None) -> list[tuple[Definition, str]]:
        """The definitions whose qualified name matches, with that name, from top to bottom.

        Args:
            last: the last part of every name that matches, where it is known.
        """
        found = []
        for definition, around in self._nested_by_indentation:
            if last is not None and definition.name != last:
                continue
            # What really encloses the definition is among what its indentation suggests.
            chains = (names for n in range(len(around) + 1) for names in itertools.combinations(around, n))
            if any(pattern.match(".".join((*names, definition.name))) for names in chains):
                qualname = self.qualname(definition)
                if qualname is not None and pattern.match(qualname):
                    found.append((definition, qualname))
        return found

    def top_level(self, name: str) -> list[int]:
        """Offsets of the definitions of, and simple assignments to, a name at the top level of the module."""
        found = [definition.start for definition in self.named(name) if self.qualname(definition) == name]
        return found + self._assignments.get(name, [])

    def named(self, name: str) -> list[Definition]:
        """The definitions of that name, whatever encloses them."""
        return self._by_name.get(name, [])

    def bases(self, definition: Definition) -> list[str]:
        """The plain names between the brackets behind the name of a class."""
        match = _BASES.match(self.text, definition.after_name)
        return re.findall(r"(?<![\w.])[^\W\d]\w*(?![\w.\[])", match.group(1)) if match else []

    def line_number(self, definition: Definition) -> int:
        """The line of ``def`` or ``class``, counted from 1. Decorators stand above it."""
        return self.text.count("\n", 0, definition.line_start) + 1

    def qualname(self, definition: Definition) -> str | None:
        """The dotted name within the module; None for what is defined inside a function.

        ``if``, ``try`` and ``with`` around a definition do not show in its name.
        """
        if definition.line_start not in self._qualnames:
            enclosing = self._enclosing(definition)
            qualname: str | None = definition.name
            if enclosing is not None:
                outer = self.qualname(enclosing) if enclosing.is_class else None
                qualname = None if outer is None else f"{outer}.{definition.name}"
            self._qualnames[definition.line_start] = qualname
        return self._qualnames[definition.line_start]

    def end_of_block(self, start: int) -> int:
        """Where the statement at ``start`` and its block end: the next code that is not indented deeper."""
        indent = start - (self.text.rfind("\n", 0, start) + 1)
        for match in _code_not_deeper_than(indent).finditer(self.text, start + 1):
            if self._string_around(match.start()) is None:
                return match.start()
        return len(self.text)

    @functools.cached_property
    def _nested_by_indentation(self) -> list[tuple[Definition, list[str]]]:
        """Every definition from top to bottom, with the names of classes above that are indented less."""
        nested: list[tuple[Definition, list[str]]] = []
        stack: list[Definition] = []
        for definition in self._at_line.values():
            while stack and stack[-1].indent >= definition.indent:
                stack.pop()
            nested.append((definition, [outer.name for outer in stack if outer.is_class]))
            stack.append(definition)
        return nested

    def _find_definitions(self) -> Iterator[Definition]:
        for keyword in (_FUNCTION, _CLASS):
            for match in keyword.finditer(self.text):
                line_start = self.text.rfind("\n", 0, match.start()) + 1
                before = _BEFORE_DEFINITION.fullmatch(self.text, line_start, match.start())
                if before and self._string_around(line_start) is None:
                    name, is_class = match.group(1), keyword is _CLASS
                    yield Definition(name, is_class, line_start, before.end(1), match.end())

    @functools.cached_property
    def _assignments(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for match in _ASSIGNMENT.finditer("\n" + self.text):
            line_start = match.start()  # in the text itself, which has one line end less
            if self._string_around(line_start) is None:
                found.setdefault(match.group(1), []).append(line_start)
        return found

    def _string_around(self, position: int) -> tuple[int, int] | None:
        index = bisect.bisect_right(self._string_starts, position) - 1
        if index >= 0 and position < self._strings[index][1]:
            return self._strings[index]
        return None

    def _enclosing(self, definition: Definition) -> Definition | None:
        """The class or function around a definition, if there is one."""
        indent = definition.indent
        if not indent:
            return None
        for line_start, line_indent in self._lines_above(definition.line_start):
            if line_indent >= indent or self.text[line_start + line_indent] in ")]}":
                continue
            found = self._at_line.get(line_start)
            if found is not None or not line_indent:
                return found
            indent = line_indent
        return None

    def _lines_above(self, line_start: int) -> Iterator[tuple[int, int]]:
        """Start and indentation of the lines above that hold code, upwards."""
        text = self.text
        while line_start:
            line_start = text.rfind("\n", 0, line_start - 1) + 1
            around = self._string_around(line_start)
            if around is not None and around[0] < line_start:
                line_start = text.rfind("\n", 0, around[0]) + 1
            position = line_start
            while text[position] in " \t":
                position += 1
            if text[position] not in "#\n":
                yield line_start, position - line_start


@functools.lru_cache(maxsize=None)
def _code_not_deeper_than(indent: int) -> re.Pattern[str]:
    """A closing bracket may stand below the beginning of its statement."""
    return re.compile(rf"(?<=\n)[ \t\f]{{0,{indent}}}[^\s#)\]}}]")


def _strings_over_lines(text: str) -> list[tuple[int, int]]:
    """Start and end of every string literal that goes on over the end of a line."""
    # Between two literals the text is skipped by str.find, which is several times faster than a regular expression.
    found: list[tuple[int, int]] = []
    find, behind = text.find, len(text)
    hash_sign, double, single = (_or(find(character), behind) for character in "#\"'")
    while True:
        start = min(hash_sign, double, single)
        if start == behind:
            return found
        match = _STRING_OR_COMMENT.match(text, start)
        end = match.end() if match else start + 1
        if start != hash_sign and "\n" in text[start:end]:
            found.append((start, end))
        if hash_sign < end:
            hash_sign = _or(find("#", end), behind)
        if double < end:
            double = _or(find('"', end), behind)
        if single < end:
            single = _or(find("'", end), behind)


def _or(position: int, behind: int) -> int:
    return position if position >= 0 else behind
