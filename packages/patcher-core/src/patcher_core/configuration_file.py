"""``patcher.toml``, or ``[tool.patcher]`` of ``pyproject.toml``: the options of the command line, per model.

::

    skip-import = ["flash_attn"]          # for every model

    [models.bevformer]                    # with --model bevformer, in place of the same options above
    with = ["mmcv", "mmdet"]
    replace-import = { fast_ops = "slow_ops" }
"""

from __future__ import annotations

import difflib
import os
import re
import sys
from typing import Any, Iterable, Iterator

from .configuration import NAMES, NUMBER, OPTIONS, PAIRS, SWITCH, Option

#: Looked for in the working folder, in this order.
FILE_NAMES = ("patcher.toml", "pyproject.toml")
_MODELS = "models"
_HEADER = re.compile(r"\s*\[\[?([^\]]+)\]\]?\s*(?:#.*)?")
_KEY = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_PART = re.compile(r"""([\w-]+)|"([^"]*)"|'([^']*)'""")


class ConfigurationError(ValueError):
    """The file cannot be used; the text names file, line, what was found and what was expected."""


def find_configuration_file(folder: str) -> str | None:
    """The configuration file of a folder; None where it has none."""
    for name in FILE_NAMES:
        path = os.path.join(folder, name)
        if os.path.isfile(path) and (name != "pyproject.toml" or _has_patcher_table(path)):
            return path
    return None


def read_configuration_file(path: str, model: str | None = None) -> dict[str, Any]:
    """The values that the file gives for a model, by field of ``Configuration``; other models are checked as well.

    Raises:
        ConfigurationError: the file cannot be read, or says what cannot be.
    """
    return _File(path).values(model)


def _has_patcher_table(path: str) -> bool:
    """Whether it is said anywhere in a ``pyproject.toml``; of one that is no TOML, whether it seems to be."""
    try:
        with open(path, encoding="utf-8") as stream:
            text = stream.read()
    except (OSError, UnicodeDecodeError):
        return False
    if "patcher" not in text:
        return False
    try:
        return "patcher" in _parsed(text).get("tool", {})
    except ValueError:
        return "tool.patcher" in text


class _File:
    """One file: its values, and where each stands."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._prefix = ("tool", "patcher") if os.path.basename(path) == "pyproject.toml" else ()
        try:
            with open(path, encoding="utf-8") as stream:
                self._text = stream.read()
            self._table = _parsed(self._text)
        except (OSError, ValueError) as error:  # ValueError: not TOML, or not UTF-8; the text has the line
            raise ConfigurationError(f"{path}: {error}") from error
        for key in self._prefix:
            self._table = self._table.get(key, {})
            self._demand(isinstance(self._table, dict), (), f"{key} must be a table, got {self._table!r}")

    def values(self, model: str | None) -> dict[str, Any]:
        models = self._table.get(_MODELS, {})
        self._demand(isinstance(models, dict), (_MODELS,), "models must be tables such as [models.NAME]")
        values = dict(self._checked(self._table, (), (_MODELS,)))
        by_model = {name: dict(self._checked(table, (_MODELS, name))) for name, table in models.items()}
        if model is None:
            return values
        if model not in by_model:
            known = f"; it has {', '.join(by_model)}" if by_model else ""
            raise ConfigurationError(
                f"{self._path}: there is no [models.{model}]{known}{_nearest(model, by_model)}"
            )
        return {**values, **by_model[model]}

    def _checked(
        self, table: Any, path: tuple[str, ...], others: tuple[str, ...] = ()
    ) -> Iterator[tuple[str, Any]]:
        self._demand(isinstance(table, dict), path, f"{'.'.join(path)} must be a table, got {table!r}")
        known = {option.key: option for option in OPTIONS}
        for key, value in table.items():
            if key in others:
                continue
            near = _nearest(key, (*known, *others))
            self._demand(key in known, (*path, key), f"unknown key {key!r}{near}")
            wrong = _what_is_wrong(known[key], value)
            self._demand(not wrong, (*path, key), f"{key} must be {wrong}, got {value!r}")
            yield known[key].field, value

    def _demand(self, holds: bool, path: tuple[str, ...], message: str) -> None:
        if not holds:
            line = _line_of(self._text, (*self._prefix, *path))
            raise ConfigurationError(f"{self._path}:{line}: {message}")


def _parsed(text: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(text)


def _what_is_wrong(option: Option, value: Any) -> str:
    """What the value of an option must be; "" where it is that."""
    if option.kind == NAMES:
        is_right = isinstance(value, list) and all(isinstance(name, str) and name for name in value)
        return "" if is_right else f'a list of names such as ["{option.metavar.lower()}"]'
    if option.kind == PAIRS:
        is_right = isinstance(value, dict) and all(isinstance(new, str) and new for new in value.values())
        return "" if is_right else 'a table such as { old = "new" }'
    if option.kind == SWITCH:
        return "" if isinstance(value, bool) else "true or false"
    if option.kind == NUMBER:
        is_right = isinstance(value, int) and not isinstance(value, bool) and value > 0
        return "" if is_right else "a whole number above 0"
    return "" if isinstance(value, str) and value else "a text"


def _nearest(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _line_of(text: str, path: tuple[str, ...]) -> int:
    """The line on which a key is set or its table begins, counted from 1; that of the nearest table above it else."""
    best, best_line = 0, 1
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        header = _HEADER.fullmatch(line)
        key = None if header else _KEY.match(line)
        if header:
            here = table = _parts(header.group(1))
        elif key:
            here = (*table, *_parts(key.group(1)))
        else:
            continue
        depth = len(here) if here == path[: len(here)] else len(path) if here[: len(path)] == path else 0
        if depth > best:
            best, best_line = depth, number
    return best_line


def _parts(dotted: str) -> tuple[str, ...]:
    """The parts of a dotted TOML key, quoted or not."""
    return tuple(next(part for part in match if part) for match in _PART.findall(dotted) if any(match))
