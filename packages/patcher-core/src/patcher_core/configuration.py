"""What ``patcher run`` and its sisters are told: one table of options for the command line and for TOML files."""

from __future__ import annotations

import json
from typing import Any, Mapping, NamedTuple

#: What the value of an option is: several names, several OLD=NEW pairs, a text, a whole number, yes or no.
NAMES, PAIRS, TEXT, NUMBER, SWITCH = "names", "pairs", "text", "number", "switch"


class Option(NamedTuple):
    """One option: ``--key`` on the command line, ``key`` in a file, ``field`` of :class:`Configuration`."""

    key: str
    field: str
    kind: str
    metavar: str
    help: str


OPTIONS = (
    Option("with", "sets", NAMES, "SET", "patch sets to apply as a whole, by library or distribution"),
    Option("patch", "patches", NAMES, "NAME", "single patches of any installed set"),
    Option("disable", "disabled", NAMES, "NAME", "patches or targets to leave out"),
    Option("skip-import", "skipped_imports", NAMES, "MODULE", "modules that import as empty stubs"),
    Option("replace-import", "replaced_imports", PAIRS, "OLD=NEW", "importers of OLD get a copy of NEW"),
    Option("profile", "profile", TEXT, "DIR", "profile some training steps into DIR"),
    Option("brake-at", "brake_at", NUMBER, "N", "stop training after step N"),
    Option("backend", "backend", TEXT, "B", "implementation to use: npu, portable, original"),
    Option("strict", "strict", SWITCH, "", "end the run where a patch fails"),
    Option("lazy", "lazy", SWITCH, "", "import nothing for the patches' sake"),
    Option("report", "report", TEXT, "FILE", "write a report to FILE.html or FILE.json"),
    Option("watch-calls", "watch_calls", SWITCH, "", "list patches that were never called (default: yes)"),
)


class Configuration(NamedTuple):
    """The values of all options; those that were not given have their default here."""

    sets: tuple[str, ...] = ()
    patches: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()
    skipped_imports: tuple[str, ...] = ()
    replaced_imports: tuple[tuple[str, str], ...] = ()
    profile: str = ""
    brake_at: int = 0
    backend: str = ""
    strict: bool = False
    lazy: bool = False
    report: str = ""
    watch_calls: bool = True

    def to_text(self) -> str:
        """As one line of JSON, for an environment variable."""
        return json.dumps(self._asdict())

    @classmethod
    def from_text(cls, text: str) -> Configuration:
        """What :meth:`to_text` wrote."""
        return cls.from_values(json.loads(text))

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Configuration:
        """From values by field; lists become tuples, a mapping a tuple of pairs."""
        return cls(**{field: _frozen(value) for field, value in values.items()})


def _frozen(value: Any) -> Any:
    if isinstance(value, Mapping):
        return tuple(value.items())
    return tuple(map(_frozen, value)) if isinstance(value, (list, tuple)) else value
