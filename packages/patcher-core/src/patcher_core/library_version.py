"""Which version of a library is here: for conditions in patches, without importing the library."""

from __future__ import annotations

from typing import Callable, Union

from .distributions import find_distribution
from .requirements import check_requirements, parse_requirement
from .source_version import version_in_source

#: A rule of a family of versions: a specifier (``">=1,<2"``), or a function that is asked each time.
FamilyRule = Union[str, Callable[[], bool]]


def get_version(package: str) -> str | None:
    """The version of a distribution or importable library; None where it is absent or does not tell.

    Nothing is imported. A library that import control skips is absent. Raises TypeError where ``package`` is
    not text.
    """
    if not isinstance(package, str):
        raise TypeError(f"package must be the name of a library as text, got {package!r}")
    found = find_distribution(package)
    return found.version if found is not None else version_in_source(package.replace("-", "_"))


def check_version(package: str, major: int | None = None, minor: int | None = None) -> bool:
    """Whether ``package`` is here in a version with these first numbers; without numbers, whether it is here.

    Raises TypeError where an argument is of a wrong type.
    """
    for name, number in (("major", major), ("minor", minor)):
        if number is not None and (not isinstance(number, int) or isinstance(number, bool)):
            raise TypeError(f"{name} must be a number such as 2, got {number!r}")
    version = get_version(package)
    if version is None:
        return False
    from packaging.version import InvalidVersion, Version

    try:
        found = Version(version)
    except InvalidVersion:
        return major is None and minor is None
    return (major is None or found.major == major) and (minor is None or found.minor == minor)


class LibraryVersion:
    """The version of one library, under whichever of its names it is installed.

    ::

        mmcv_version = LibraryVersion("mmcv", "mmcv-full", "mmcv-lite", is_v1x=">=1,<2", is_v2x=">=2.0.0rc0")
        mmcv_version.version     # "2.1.0", or None
        mmcv_version.is_v2x      # True
        if mmcv_version: ...     # is it here?

    It is looked up anew each time it is asked, so that it follows what import control hides.

    Args:
        library: the import root, which is also the first name of a distribution that is looked for.
        other_distributions: further names under which the library is distributed.
        families: attributes to answer, each with a specifier for this library or a function without
            arguments.

    Raises TypeError or ValueError where a name or a rule is not what it must be.
    """

    def __init__(self, library: str, *other_distributions: str, **families: FamilyRule) -> None:
        self._names = (library, *other_distributions)
        self._families = families
        for name in self._names:
            if not isinstance(name, str):
                raise TypeError(f"a library is named by text, got {name!r}")
            parse_requirement(name)
        for family, rule in families.items():
            if isinstance(rule, str):
                parse_requirement(f"{library} {rule}")
            elif not callable(rule):
                raise TypeError(f"{family} must be a specifier such as '>=1,<2' or a function, got {rule!r}")

    @property
    def version(self) -> str | None:
        """The version as text; None where the library is absent or does not tell."""
        found = (get_version(name) for name in self._names)
        return next((version for version in found if version is not None), None)

    @property
    def available(self) -> bool:
        """Whether the library is here, in whatever version."""
        return self._check("")

    def __bool__(self) -> bool:
        return self.available

    def __call__(self) -> LibraryVersion:
        """Itself: the old interface has it both as an object and as a function."""
        return self

    def __getattr__(self, family: str) -> bool:
        rule = self.__dict__.get("_families", {}).get(family)
        if rule is None:
            raise AttributeError(f"{self!r} knows no family {family!r}")
        return self._check(rule) if isinstance(rule, str) else bool(rule())

    def __str__(self) -> str:
        return self.version or "not installed"

    def __repr__(self) -> str:
        return f"LibraryVersion({self._names[0]!r}, {self.version!r})"

    def _check(self, specifier: str) -> bool:
        alternatives = [f"{name} {specifier}" for name in self._names]
        return check_requirements(alternatives, library=self._names[0]).is_satisfied
