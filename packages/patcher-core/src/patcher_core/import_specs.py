"""The specifications that ``with_imports`` takes, read into data. Nothing is imported here."""

from __future__ import annotations

import keyword
from typing import Iterable, Mapping, NamedTuple, Sequence, Tuple, Union

ImportSpec = Union[str, Tuple[str, ...]]


class LentName(NamedTuple):
    """One name lent to a function.

    ``module`` is imported; ``attribute`` of it, or the module itself where that is None, is bound to
    ``name``. ``bind_root`` is the habit of ``import a.b``: all of it is imported and ``a`` is bound.
    """

    name: str
    module: str
    attribute: str | None = None
    bind_root: bool = False

    @property
    def origin(self) -> str:
        """The dotted path of what is bound."""
        if self.attribute is not None:
            return f"{self.module}.{self.attribute}"
        return self.module.partition(".")[0] if self.bind_root else self.module


class ExpressionDecorator(NamedTuple):
    """A decorator written as an expression of lent names and globals of the function's module."""

    expression: str


class PathDecorator(NamedTuple):
    """A decorator at a dotted path; where there are ``arguments``, what it gives for them decorates."""

    path: str
    arguments: Mapping[str, object] | None = None


DecoratorSpec = Union[ExpressionDecorator, PathDecorator]


def parse_specs(specs: Iterable[ImportSpec]) -> tuple[list[LentName], list[DecoratorSpec]]:
    """Read the specifications of ``with_imports``: lent names, and ``"@..."`` decorators in the order
    written.

    Raises TypeError for a specification that is neither text nor a tuple of text, ValueError for malformed
    text.
    """
    names: list[LentName] = []
    decorators: list[DecoratorSpec] = []
    for spec in specs:
        if isinstance(spec, tuple):
            names.append(_parse_tuple(spec))
        elif not isinstance(spec, str):
            raise TypeError(
                f"with_imports: {spec!r} is a {type(spec).__name__}; expected 'package.module', "
                f"('module', 'name'), ('module', 'name', 'alias'), an import statement, or '@decorator'"
            )
        elif spec.lstrip().startswith("@"):
            decorators.append(_parse_decorator(spec))
        elif is_dotted_path(spec):
            names.append(LentName(spec.rpartition(".")[2], spec))
        else:
            names += _parse_statement(spec)
    return names, decorators


def parse_name_list(spec: tuple[str, ...]) -> list[LentName]:
    """Read the tuple of the old interface: ``(module, name, name, ...)``, each bound under its own name."""
    _check_tuple(spec, lengths=None)
    module, *attributes = spec
    return [LentName(attribute, module, attribute) for attribute in attributes]


def parse_decorators(specs: Sequence[object] | None) -> list[DecoratorSpec]:
    """Read ``apply_decorators``: ``("path", {keyword arguments})`` each, or a bare path.

    Raises TypeError or ValueError that names the entry.
    """
    if specs is None:
        return []
    if isinstance(specs, str) or not isinstance(specs, Sequence):
        raise TypeError(
            f"with_imports: apply_decorators is {specs!r}; expected a list of ('path', {{arguments}})"
        )
    return [_parse_decorator_entry(entry) for entry in specs]


def check_no_name_twice(names: Iterable[LentName]) -> None:
    """Raise ValueError where two different things would be lent under one name."""
    origins: dict[str, str] = {}
    for lent in names:
        known = origins.setdefault(lent.name, lent.origin)
        if known != lent.origin:
            raise ValueError(
                f"with_imports: {lent.name!r} would be both {known} and {lent.origin}; give one an alias"
            )


def is_dotted_path(text: str) -> bool:
    """Whether ``text`` is identifiers joined by dots, none of them a keyword."""
    return all(part.isidentifier() and not keyword.iskeyword(part) for part in text.split("."))


def _check_tuple(spec: tuple[str, ...], lengths: tuple[int, ...] | None) -> None:
    if not all(isinstance(part, str) for part in spec):
        raise TypeError(f"with_imports: {spec!r} must hold nothing but text")
    if len(spec) < 2 or (lengths is not None and len(spec) not in lengths):
        raise ValueError(f"with_imports: {spec!r} has {len(spec)} parts; expected a module and a name")
    module, *names = spec
    if not is_dotted_path(module.lstrip(".")):
        raise ValueError(f"with_imports: {module!r} in {spec!r} is not the name of a module")
    for name in names:
        if not is_dotted_path(name) or "." in name:
            raise ValueError(f"with_imports: {name!r} in {spec!r} is not a name")


def _parse_tuple(spec: tuple[str, ...]) -> LentName:
    _check_tuple(spec, lengths=(2, 3))
    return LentName(spec[-1], spec[0], spec[1])


def _parse_statement(text: str) -> list[LentName]:
    import ast

    try:
        statements = ast.parse(text.strip()).body
    except SyntaxError as error:
        raise ValueError(
            f"with_imports: {text!r} is neither a dotted path nor an import statement"
        ) from error
    names: list[LentName] = []
    for statement in statements:
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                name = alias.asname or alias.name.partition(".")[0]
                names.append(LentName(name, alias.name, bind_root=alias.asname is None))
        elif isinstance(statement, ast.ImportFrom):
            module = "." * statement.level + (statement.module or "")
            for alias in statement.names:
                if alias.name == "*":
                    raise ValueError(f"with_imports: {text!r}: a star names nothing; list the names")
                names.append(LentName(alias.asname or alias.name, module, alias.name))
        else:
            raise ValueError(f"with_imports: {text!r} is not an import statement")
    if not names:
        raise ValueError(f"with_imports: {text!r} imports nothing")
    return names


def _parse_decorator(text: str) -> DecoratorSpec:
    expression = text.strip()[1:].strip()
    try:
        compile(expression, "<with_imports>", "eval", dont_inherit=True)
    except SyntaxError as error:
        raise ValueError(f"with_imports: {text!r} is not a decorator: {error.msg}") from error
    return ExpressionDecorator(expression)


def _parse_decorator_entry(entry: object) -> DecoratorSpec:
    path, arguments = entry if isinstance(entry, tuple) and len(entry) == 2 else (entry, None)
    if not isinstance(path, str) or not (arguments is None or isinstance(arguments, Mapping)):
        raise TypeError(
            f"with_imports: apply_decorators holds {entry!r}; expected ('path', {{keyword arguments}})"
        )
    if not is_dotted_path(path):
        raise ValueError(f"with_imports: apply_decorators names {path!r}, which is not a dotted path")
    if arguments is not None and not all(isinstance(name, str) for name in arguments):
        raise TypeError(f"with_imports: the arguments of {path!r} in apply_decorators must be named by text")
    return PathDecorator(path, None if arguments is None else dict(arguments))
