"""Version pins: is a library here, and in a version that a patch was verified against?

A requirement is written as PEP 508 says (``"mmcv>=2.0,<2.3"``). Several are alternatives, any one of which
suffices: one library may be installed under several names (``mmcv``, ``mmcv-full``, ``mmcv-lite``). Answers
come from the metadata of installed distributions; a library without metadata is asked in its source. Nothing
is imported.

``packaging`` decides, except where both sides are plain releases (``2.1.0`` and ``>=2.0,<2.3``): comparing
those takes three lines, and importing ``packaging`` takes a tenth of what a small program needs to start.
"""

from __future__ import annotations

import enum
import functools
import operator
from typing import TYPE_CHECKING, Iterable, Sequence

from .distributions import Distribution, find_distribution, headers, normalized
from .source_version import is_importable, version_in_source

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_NAME_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
_COMPARE = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}


class RequirementStatus(str, enum.Enum):
    """What checking a requirement gave."""

    SATISFIED = "satisfied"
    ABSENT = "absent"  #: the library is not there: nothing to say
    MISMATCH = "mismatch"  #: the library is there in another version: to be said
    UNKNOWN = "unknown"  #: the library is there and does not tell its version: to be said


class RequirementCheck:
    """The answer to a requirement, with what was found."""

    def __init__(
        self,
        status: RequirementStatus,
        requirement: str,
        reason: str,
        distribution: str | None = None,
        version: str | None = None,
    ) -> None:
        self.status = status
        self.requirement = requirement  #: the alternatives as written, joined by " or "
        self.reason = reason  #: for a report: what was found and what was expected
        self.distribution = distribution  #: the distribution, or the library, that was found
        self.version = version

    @property
    def is_satisfied(self) -> bool:
        return self.status is RequirementStatus.SATISFIED

    @property
    def is_visible(self) -> bool:
        """Whether a user must be told: the library is there, and its version is not known to be right."""
        return self.status in (RequirementStatus.MISMATCH, RequirementStatus.UNKNOWN)


class Alternative:
    """One requirement, parsed."""

    def __init__(
        self, text: str, name: str, versions: str, clauses: tuple[tuple[str, tuple[int, ...]], ...] | None
    ) -> None:
        self.text = text
        self.name = name
        self.versions = versions  #: the version clauses, lowest first
        self.clauses = clauses  #: None where only ``packaging`` can decide

    def applies(self) -> bool:
        """Whether the environment marker, if there is one, holds here."""
        marker = None if self.clauses is not None else _requirement(self.text).marker
        return marker is None or marker.evaluate()

    def accepts(self, version: str | None) -> bool | None:
        """Whether ``version`` is one of those required; None where it is unknown or cannot be compared."""
        if not self.versions:
            return True
        if version is None:
            return None
        # A local version counts as the release that it was built from.
        release = _release(version.partition("+")[0])
        if release is not None and self.clauses is not None:
            return all(_COMPARE[comparison](release, wanted) for comparison, wanted in self.clauses)
        from packaging.version import InvalidVersion, Version

        try:
            return _requirement(self.text).specifier.contains(Version(version), prereleases=True)
        except InvalidVersion:
            return None


class _Verdict:
    """What was found for one alternative, and whether that is accepted; None where it cannot be told."""

    def __init__(self, alternative: Alternative, found: str, version: str | None) -> None:
        self.alternative = alternative
        self.found = found
        self.version = version
        self.accepted = alternative.accepts(version)


def check_requirements(requires: str | Sequence[str], library: str | None = None) -> RequirementCheck:
    """Check alternatives, any one of which suffices. Pre-releases and local versions count like any other.

    Args:
        requires: PEP 508 requirements. None at all are satisfied by anything.
        library: the import root of the library, asked for its version where no distribution is found. By
            default the name in each requirement, with underscores.

    Raises:
        TypeError: ``requires`` holds something else than text.
        ValueError: a requirement is malformed.
    """
    alternatives = _parse_all(requires)
    text = " or ".join(alternative.text for alternative in alternatives)
    if not alternatives:
        return RequirementCheck(RequirementStatus.SATISFIED, text, "nothing is required")
    applying = [alternative for alternative in alternatives if alternative.applies()]
    verdicts = _find_distributions(applying) or _find_libraries(applying, library)
    if not verdicts:
        names = " or ".join(dict.fromkeys(alternative.name for alternative in alternatives))
        return RequirementCheck(RequirementStatus.ABSENT, text, f"{names} is not installed")
    # The best news first: satisfied, then a mismatch that can be named, then what cannot be compared.
    verdict = min(verdicts, key=lambda verdict: (True, False, None).index(verdict.accepted))
    wanted = " or ".join(dict.fromkeys(v.alternative.versions for v in verdicts if v.found == verdict.found))
    status, reason = _judge(verdict, wanted)
    return RequirementCheck(status, text, reason, verdict.found, verdict.version)


def _judge(verdict: _Verdict, wanted: str) -> tuple[RequirementStatus, str]:
    version, accepted = verdict.version, verdict.accepted
    if accepted:
        return RequirementStatus.SATISFIED, f"found {version or verdict.found}"
    if accepted is False:
        return RequirementStatus.MISMATCH, f"found {version}, verified for {wanted}"
    known = "version unknown" if version is None else f"version {version!r} cannot be compared"
    return RequirementStatus.UNKNOWN, f"{known}, verified for {wanted}"


def _find_distributions(alternatives: Iterable[Alternative]) -> list[_Verdict]:
    found = ((alternative, find_distribution(alternative.name)) for alternative in alternatives)
    return [
        _Verdict(alternative, there.name, there.version) for alternative, there in found if there is not None
    ]


def _find_libraries(alternatives: Iterable[Alternative], library: str | None) -> list[_Verdict]:
    verdicts = []
    for alternative in alternatives:
        root = library or alternative.name.replace("-", "_")
        if is_importable(root):
            verdicts.append(_Verdict(alternative, root, version_in_source(root)))
    return verdicts


def _parse_all(requires: str | Sequence[str]) -> list[Alternative]:
    texts = [requires] if isinstance(requires, str) else requires
    if not isinstance(texts, (list, tuple)) or not all(isinstance(text, str) for text in texts):
        raise TypeError(
            f"requires must be requirements as text, such as ('mmcv>=2.0,<2.3',); got {requires!r}"
        )
    return [parse_requirement(text) for text in texts]


@functools.lru_cache(maxsize=None)
def parse_requirement(text: str) -> Alternative:
    specifier = text.strip().lstrip(_NAME_CHARACTERS)
    name = text.strip().partition(specifier)[0] if specifier else text.strip()
    clauses = _plain_clauses(specifier)
    if clauses is not None and name[:1].isalnum() and name[-1].isalnum():
        return Alternative(text, name, _lowest_first(specifier), clauses)
    requirement = _requirement(text)
    return Alternative(text, requirement.name, _lowest_first(str(requirement.specifier)), None)


@functools.lru_cache(maxsize=None)
def _requirement(text: str) -> Requirement:
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        return Requirement(text)
    except InvalidRequirement as error:
        raise ValueError(f"{text!r} is not a requirement such as 'mmcv>=2.0,<2.3': {error}") from error


def _plain_clauses(specifier: str) -> tuple[tuple[str, tuple[int, ...]], ...] | None:
    """The clauses of ``>=2.0,<2.3``; None where only ``packaging`` can read them."""
    clauses = []
    for clause in map(str.strip, specifier.split(",") if specifier else ()):
        version = clause.lstrip("<>=!")
        comparison, release = clause[: len(clause) - len(version)], _release(version.strip())
        if comparison not in _COMPARE or release is None:
            return None
        clauses.append((comparison, release))
    return tuple(clauses)


def _release(text: str) -> tuple[int, ...] | None:
    """A plain release to compare: trailing zeros do not count (PEP 440). None where ``text`` is none."""
    numbers = text.split(".")
    if not (text.isascii() and all(map(str.isdigit, numbers))):
        return None
    while numbers and not int(numbers[-1]):
        numbers.pop()
    return tuple(map(int, numbers))


def _lowest_first(specifier: str) -> str:
    def numbers(clause: str) -> list[int]:
        return [int(number) for number in clause.lstrip("<>=!~").split(".") if number.isdigit()]

    return ",".join(sorted(("".join(clause.split()) for clause in specifier.split(",")), key=numbers))


class Pins:
    """The upstream versions that a patch set was verified against, from its extras of these names."""

    def __init__(self, upstream: tuple[str, ...], upstream_any: tuple[str, ...]) -> None:
        self.upstream = upstream  #: each holds for its own library
        self.upstream_any = upstream_any  #: names of one library, any of which suffices

    def alternatives(self) -> list[tuple[str, ...]]:
        """One entry per library, as :func:`check_requirements` takes it."""
        return [(requirement,) for requirement in self.upstream] + [self.upstream_any] * bool(
            self.upstream_any
        )

    def of_library(self, library: str) -> tuple[str, ...]:
        """The pins of one library as alternatives: of its own name, and in ``upstream_any`` of names that extend it.

        ``mmcv`` has those of ``mmcv``, ``mmcv-full`` and ``mmcv-lite``. Empty where there are none.
        """
        wanted = normalized(library)
        exact = [text for text in self.upstream if normalized(parse_requirement(text).name) == wanted]
        extended = [
            text
            for text in self.upstream_any
            if f"{normalized(parse_requirement(text).name)}-".startswith(f"{wanted}-")
        ]
        return (*exact, *extended)


def read_pins(distribution: str | Distribution) -> Pins:
    """The pins of an installed patch set, from the extras ``upstream`` and ``upstream-any`` in its metadata.

    Raises LookupError where no distribution of that name is installed, ValueError where a pin is malformed.
    """
    found = find_distribution(distribution) if isinstance(distribution, str) else distribution
    if found is None:
        raise LookupError(f"no distribution {distribution!r} is installed, so its pins cannot be read")
    pins: dict[str, list[str]] = {"upstream": [], "upstream-any": []}
    for line in headers(found.metadata(), "Requires-Dist"):
        requirement, extra = _split_extra(line)
        if extra in pins:
            pins[extra].append(parse_requirement(requirement).text)
    return Pins(tuple(pins["upstream"]), tuple(pins["upstream-any"]))


def _split_extra(line: str) -> tuple[str, str | None]:
    """A value of Requires-Dist as the requirement and the extra that it belongs to (None: to none)."""
    requirement, _, marker = line.partition(";")
    variable, _, value = "".join(marker.split()).partition("==")
    extra = value[1:-1]
    if variable == "extra" and value in (f"'{extra}'", f'"{extra}"') and not {*extra} - {*_NAME_CHARACTERS}:
        return requirement.strip(), extra.replace("_", "-")
    if "upstream" not in marker:
        return line, None
    parsed = _requirement(line).marker
    for extra in ("upstream", "upstream-any"):
        if parsed is not None and parsed.evaluate({"extra": extra}):
            return requirement.strip(), extra
    return line, None
