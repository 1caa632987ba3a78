"""The tokens of a function or class, without what does not change what it does.

Comments, annotations, docstrings and the layout of lines are left out. A string is one token, an f-string
too, as it was before CPython 3.12: so the same text gives the same tokens on CPython 3.8 to 3.13.
"""

from __future__ import annotations

import functools
import io
import token
import tokenize
from typing import Iterator, NamedTuple

_COMPOUND = frozenset(
    [
        "async",
        "case",
        "class",
        "def",
        "elif",
        "else",
        "except",
        "finally",
        "for",
        "if",
        "match",
        "try",
        "while",
        "with",
    ]
)
_BRACKETS = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}

#: CPython 3.12 and later break f-strings up, between tokens of these types.
_STRING_STARTS = frozenset(getattr(token, name, -1) for name in ("FSTRING_START", "TSTRING_START"))
_STRING_ENDS = frozenset(getattr(token, name, -1) for name in ("FSTRING_END", "TSTRING_END"))


class Token(NamedTuple):
    """A token: its text, and what it is where the text does not tell."""

    text: str
    is_name: bool = False
    is_string: bool = False


NEWLINE = Token("\n")
INDENT = Token("\x0e")
DEDENT = Token("\x0f")

_LAYOUT = {tokenize.NEWLINE: NEWLINE, tokenize.INDENT: INDENT, tokenize.DEDENT: DEDENT}


def significant_tokens(text: str, start: int, end: int, name: str) -> tuple[Token, ...]:
    """The tokens of the ``def`` or ``class`` of ``name`` that starts at offset ``start``, to the end of its
    block.

    The name itself is left out. Decorators stand before ``start`` and do not count; those of functions inside
    do.

    Args:
        end: where the block ends; where it turns out to go on there, the rest of the text is read as well.

    Raises ValueError where the text is not valid Python.
    """
    try:
        return _tokens_of_block(text[start:end], name)
    except ValueError:
        return _tokens_of_block(text[start:], name)


@functools.lru_cache(maxsize=256)
def _tokens_of_block(text: str, name: str) -> tuple[Token, ...]:
    """Kept, since what is looked for is what stands in many modules in the same words."""
    significant: list[Token] = []
    line: list[Token] = []
    for found in _block(text):
        if found is NEWLINE:
            significant += _significant_line(line)
            line = []
        elif found is INDENT or found is DEDENT:
            significant.append(found)
        else:
            line.append(found)
    position = next(index for index, found in enumerate(significant) if found.text == name)
    return (*significant[:position], *significant[position + 1 :])


def _block(text: str) -> Iterator[Token]:
    """The tokens of the statement at the start of ``text`` and of the block that belongs to it."""
    depth = 0
    before = NEWLINE
    try:
        for kind, found in _whole_tokens(text):
            yield found
            if kind == tokenize.INDENT:
                depth += 1
            elif kind == tokenize.DEDENT:
                depth -= 1
                if not depth:
                    return
            elif kind == tokenize.NEWLINE and not depth and before.text != ":":
                return  # there is no block, or it stands on the line of the statement
            before = found
    except IndentationError:
        # The text starts at the statement, so what follows the block may be indented like nothing before it.
        yield from [DEDENT] * depth
    except (tokenize.TokenError, SyntaxError) as error:
        raise ValueError(f"not valid Python: {error}") from error


def _whole_tokens(text: str) -> Iterator[tuple[int, Token]]:
    """Type and token, without comments and blank lines, and with every string in one piece."""
    nesting, begin = 0, (0, 0)
    for found in tokenize.generate_tokens(io.StringIO(text).readline):
        if found.type in _STRING_STARTS:
            begin = begin if nesting else found.start
            nesting += 1
        elif found.type in _STRING_ENDS:
            nesting -= 1
            if not nesting:
                yield tokenize.STRING, Token(_between(text, begin, found.end), is_string=True)
        elif not nesting and found.type in _LAYOUT:
            yield found.type, _LAYOUT[found.type]
        elif not nesting and found.type not in (tokenize.COMMENT, tokenize.NL, tokenize.ENDMARKER):
            is_name, is_string = found.type == tokenize.NAME, found.type == tokenize.STRING
            yield found.type, Token(found.string, is_name, is_string)


def _between(text: str, begin: tuple[int, int], end: tuple[int, int]) -> str:
    lines = text.split("\n", end[0])[begin[0] - 1 : end[0]]
    lines[-1] = lines[-1][: end[1]]
    lines[0] = lines[0][begin[1] :]
    return "\n".join(lines)


def _significant_line(line: list[Token]) -> list[Token]:
    """A logical line without its annotations; nothing of it where it is a docstring."""
    if all(found.is_string and "f" not in found.text.partition(found.text[-1])[0].lower() for found in line):
        return []
    words = [found.text for found in line if found.text != "async"]
    if words[0] in ("def", "class"):
        return [*_without_signature_annotations(line), NEWLINE]
    if words[0] in _COMPOUND:
        return [*line, NEWLINE]
    return [*_without_variable_annotation(line), NEWLINE]


def _without_signature_annotations(line: list[Token]) -> list[Token]:
    kept: list[Token] = []
    depth = 0
    skipping = may_annotate = in_lambda = in_result = False
    for index, found in enumerate(line):
        text = found.text
        depth += _BRACKETS.get(text, 0)
        if depth == 0 and text == ":":
            return kept + line[index:]
        if depth == 0 and text == "->":
            in_result = True
        elif depth == 1 and text in ("(", ",") and not in_lambda:
            may_annotate, skipping = True, False
        elif depth == 1 and text == "lambda":
            in_lambda = True
        elif depth == 1 and text == ":":
            skipping, in_lambda = may_annotate, False
        elif depth == 1 and text == "=":
            may_annotate = skipping = False
        elif depth == 0 and text == ")":
            skipping = False
        if not skipping and not in_result:
            kept.append(found)
    return kept


def _without_variable_annotation(line: list[Token]) -> list[Token]:
    """``x.y[0]: int = 3`` as ``x.y[0] = 3``; any other line as it is."""
    depth = 0
    colon = None
    before = "."
    for index, found in enumerate(line):
        text = found.text
        depth += _BRACKETS.get(text, 0)
        if depth == 0 and colon is not None and text == "=":
            return line[:colon] + line[index:]
        if depth == 0 and colon is None:
            if text == ":":
                colon = index
            elif text not in (".", "]") and not (found.is_name and before == "."):
                return line
        elif depth == 1 and colon is None and text == "(":
            return line
        before = text
    return line[:colon]
