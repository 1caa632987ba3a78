"""A release stops at the first thing that a user would stumble over, and the message says what to do."""

import subprocess
import sys

import pytest

from nox_support import release
from nox_support.environments import PACKAGES, ROOT

PYPROJECT = """
[project]
name = "{name}"
version = "{version}"
dependencies = [{dependencies}]
"""
CHANGELOG = "# Changelog\n\n## 1.2.0 (2030-01-02)\n\nFirst.\n"


@pytest.fixture
def repository(tmp_path):
    def add(name, version="1.2.0", dependencies="", changelog=CHANGELOG):
        folder = tmp_path / "packages" / name
        folder.mkdir(parents=True, exist_ok=True)
        text = PYPROJECT.format(name=name, version=version, dependencies=dependencies)
        (folder / "pyproject.toml").write_text(text)
        (folder / "CHANGELOG.md").write_text(changelog)
        return folder

    add("engine")
    add("a-set", dependencies='"engine>=1,<2", "packaging"')
    add.root = tmp_path
    return add


def faults(repository, tag=None, known_tags=()):
    return list(release.faults("a-set", tag, known_tags, repository.root))


@pytest.mark.parametrize("tag", [None, "a-set-v1.2.0"])
@pytest.mark.parametrize("known", [[], ["a-set-v1.1.0", "engine-v9.0.0"], ["a-set-v1.2.0rc1"]])
def test_a_package_in_order_has_no_fault(repository, tag, known):
    assert faults(repository, tag, [*known, *([tag] if tag else [])]) == []


@pytest.mark.parametrize("version, message", [("1.two", "no version by PEP 440"), ("1.02", "write 1.2")])
def test_a_version_that_tools_read_otherwise(repository, version, message):
    repository("a-set", version=version)
    assert message in faults(repository)[0]


def test_a_tag_of_another_version(repository):
    assert faults(repository, tag="a-set-v1.3.0") == [
        "the tag is a-set-v1.3.0, but packages/a-set/pyproject.toml has 1.2.0: the tag must be a-set-v1.2.0"
    ]


@pytest.mark.parametrize("known", ["a-set-v1.2.0", "a-set-v1.10.0"])
def test_a_version_that_was_released_before(repository, known):
    (fault,) = faults(repository, known_tags=[known])
    assert "is not newer than the released" in fault


def test_the_newest_tag_is_the_highest_version_of_that_package():
    tags = ["a-set-v1.9.0", "a-set-v1.10.0", "a-set-extra-v3.0", "engine-v4.0.0"]
    assert release.newest_tag("a-set", tags) == "a-set-v1.10.0"
    assert release.newest_tag("other", tags) is None


def beside(repository, *dependents, known_tags):
    return release.releases_beside("engine", dependents, known_tags, repository.root)


def test_a_set_meets_the_oldest_and_the_newest_released_engine_that_it_admits(repository):
    tags = [
        "engine-v0.9.0",
        "engine-v1.10.0",
        "engine-v1.2.0",
        "engine-v1.0.0",
        "engine-v2.0.0",
        "a-set-v1.5.0",
    ]
    assert beside(repository, "a-set", known_tags=tags) == ("engine-v1.0.0", "engine-v1.10.0")
    assert beside(repository, "a-set", known_tags=["engine-v1.0.0"]) == ("engine-v1.0.0",)


def test_a_set_that_needs_a_newer_engine_than_any_released_meets_none(repository):
    repository("a-set", dependencies='"engine>=1.2,<2"')
    assert beside(repository, "a-set", known_tags=["engine-v1.0.0", "engine-v1.1.0"]) == ()
    assert beside(repository, "a-set", known_tags=[]) == ()


def test_every_set_that_is_installed_too_must_admit_the_engine(repository):
    repository("other", dependencies='"engine>=1.1"')
    tags = ["engine-v1.0.0", "engine-v1.1.0", "engine-v1.9.0", "engine-v2.0.0"]
    assert beside(repository, "a-set", "other", "engine", known_tags=tags) == (
        "engine-v1.1.0",
        "engine-v1.9.0",
    )


def test_a_released_set_that_shuts_out_the_present_engine_is_never_installed_beside_it(repository, tmp_path):
    present = tmp_path / "present" / "packages" / "engine"
    present.mkdir(parents=True)
    project = present / "pyproject.toml"
    project.write_text(PYPROJECT.format(name="engine", version="1.9.0", dependencies=""))
    assert list(release.shut_out("a-set", repository.root, tmp_path / "present")) == []
    project.write_text(PYPROJECT.format(name="engine", version="2.0.0", dependencies=""))
    (conflict,) = release.shut_out("a-set", repository.root, tmp_path / "present")
    assert conflict == "engine<2,>=1, and engine is at 2.0.0"


@pytest.mark.parametrize(
    "changelog", ["# Changelog\n", "## 1.2.0 (unreleased)\n", "## 11.2.0 (2030-01-02)\n"]
)
def test_a_changelog_without_a_dated_section(repository, changelog):
    repository("a-set", changelog=changelog)
    assert faults(repository) == [
        "CHANGELOG.md has no dated section for 1.2.0: run: python -m nox -s changelog -- a-set"
    ]


def test_a_fragment_that_was_not_collected(repository):
    changes = repository("a-set") / "changes"
    changes.mkdir()
    (changes / "+nms.fixed.md").write_text("nms keeps its order.")
    assert faults(repository) == [
        "changelog fragments are left (+nms.fixed.md): run: python -m nox -s changelog -- a-set"
    ]


def test_a_dependency_that_shuts_out_the_present_engine(repository):
    repository("engine", version="2.0.0")
    (fault,) = faults(repository)
    assert fault == "it needs engine<2,>=1, and engine is at 2.0.0 here: widen the dependency"


def test_towncrier_collects_a_fragment_under_the_version(repository):
    folder = repository("a-set", changelog="# Changelog\n\n<!-- towncrier release notes start -->\n")
    (folder / "changes").mkdir()
    (folder / "changes" / "+nms.fixed.md").write_text("nms keeps its order.\n")
    command = ["towncrier", "build", "--keep", "--config", str(ROOT / "towncrier.toml")]
    subprocess.run(
        [sys.executable, "-m", *command, "--dir", str(folder), "--version", "1.2.0"],
        cwd=repository.root,
        check=True,
    )
    text = (folder / "CHANGELOG.md").read_text()
    assert "### Fixed\n\n- nms keeps its order." in text
    (folder / "changes" / "+nms.fixed.md").unlink()
    assert faults(repository) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_has_a_workflow_that_its_tags_start(package):
    workflow = (ROOT / ".github" / "workflows" / f"release-{package}.yml").read_text(encoding="utf-8")
    assert f'tags: ["{package}-v*"]' in workflow
    assert f"package: {package}\n" in workflow
