"""What must hold before a distribution is released: its version, its tag, its changelog, and what it depends on."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Iterable, Iterator

import nox.project
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from .environments import ROOT


def project_of(package: str, root: Path = ROOT) -> dict[str, object]:
    """The `project` table of a package's pyproject.toml."""
    return nox.project.load_toml(root / "packages" / package / "pyproject.toml")["project"]


def tag_of(package: str, root: Path = ROOT) -> str:
    """The git tag that releases the present version, as `patches-mmcv-v1.2.3`."""
    return f"{package}-v{project_of(package, root)['version']}"


def git_tags(root: Path = ROOT) -> list[str]:
    """Every tag of the repository."""
    done = subprocess.run(["git", "tag"], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout.split()


def releases_of(package: str, known_tags: Iterable[str]) -> dict[Version, str]:
    """The tags of every release of `package` by version, the oldest first."""
    prefix = f"{package}-v"
    return dict(sorted((Version(tag[len(prefix) :]), tag) for tag in known_tags if tag.startswith(prefix)))


def newest_tag(package: str, known_tags: Iterable[str]) -> str | None:
    """The tag of the newest release of `package`; None if there is none."""
    return next(reversed(list(releases_of(package, known_tags).values())), None)


def releases_beside(
    package: str, dependents: Iterable[str], known_tags: Iterable[str], root: Path = ROOT
) -> tuple[str, ...]:
    """The tags of the oldest and the newest release of `package` that all `dependents` admit, as they are in `root`."""
    admitted = SpecifierSet()
    for dependent in dependents:
        needed = local_dependencies(dependent, root).get(package)
        admitted &= needed.specifier if needed else SpecifierSet()
    tags = [tag for version, tag in releases_of(package, known_tags).items() if version in admitted]
    return tuple(dict.fromkeys((*tags[:1], *tags[-1:])))


def shut_out(package: str, released: Path, root: Path = ROOT) -> Iterator[str]:
    """What `package`, as it is in the tree `released`, needs of this repository and no longer finds in `root`."""
    for name, requirement in local_dependencies(package, released).items():
        present = str(project_of(name, root)["version"])
        if not requirement.specifier.contains(present, prereleases=True):
            yield f"{requirement}, and {name} is at {present}"


def local_dependencies(package: str, root: Path = ROOT) -> dict[str, Requirement]:
    """The packages of this repository that `package` needs, also through another one."""
    found: dict[str, Requirement] = {}
    for text in project_of(package, root).get("dependencies", ()):
        requirement = Requirement(text)
        if (root / "packages" / requirement.name / "pyproject.toml").is_file():
            found = {**local_dependencies(requirement.name, root), **found, requirement.name: requirement}
    return found


def faults(package: str, tag: str | None, known_tags: Iterable[str], root: Path = ROOT) -> Iterator[str]:
    """What keeps `package` from being released; `tag` is the pushed one, None for a rehearsal."""
    yield from _faults_of_version(package, tag, known_tags, root)
    yield from _faults_of_changelog(package, root)
    for conflict in shut_out(package, root, root):
        yield f"it needs {conflict} here: widen the dependency"


def _faults_of_version(package: str, tag: str | None, known_tags: Iterable[str], root: Path) -> Iterator[str]:
    version = str(project_of(package, root)["version"])
    pyproject = f"packages/{package}/pyproject.toml"
    try:
        canonical = Version(version)
    except InvalidVersion:
        yield f"version {version!r} in {pyproject} is no version by PEP 440: write one like 1.2.3"
        return
    if str(canonical) != version:
        yield f"version {version!r} in {pyproject} is not in its normal form: write {canonical}"
    expected = tag_of(package, root)
    if tag is not None and tag != expected:
        yield f"the tag is {tag}, but {pyproject} has {version}: the tag must be {expected}"
    newest = newest_tag(package, [known for known in known_tags if known != tag])
    if newest and Version(newest[len(package) + 2 :]) >= canonical:
        yield f"version {version} is not newer than the released {newest}: raise it in {pyproject}"


def _faults_of_changelog(package: str, root: Path) -> Iterator[str]:
    folder = root / "packages" / package
    version = str(project_of(package, root)["version"])
    collect = f"run: python -m nox -s changelog -- {package}"
    fragments = sorted(file.name for file in folder.glob("changes/*.md"))
    if fragments:
        yield f"changelog fragments are left ({', '.join(fragments)}): {collect}"
    text = (folder / "CHANGELOG.md").read_text(encoding="utf-8")
    if not re.search(rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$", text, re.MULTILINE):
        yield f"CHANGELOG.md has no dated section for {version}: {collect}"
