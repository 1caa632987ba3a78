"""The one entry point for every task: `python -m nox -l` lists them.

    python -m nox -s demo                        the example, an unmodified CUDA model
    python -m nox -s tests                       every environment that runs tests, but those only for the matrix
    python -m nox -s tests-patches-mmcv -- -k x  one package; pytest's options after --
    python -m nox -s environment-core-3.8        one environment
    python -m nox -s matrix -- patches-mmcv      every upstream version that is tested, more than `tests` takes
    python -m nox -s lint types build bench docs
    python -m nox -s previous-core previous-set -- patches-mmcv   with what was released before
    python -m nox -s changelog release -- patches-mmcv      what comes before a tag
    python -m nox -s new-patch-set -- NAME TARGET           a patch set that passes the contract

`-r` reuses environments made before, `-R` also installs nothing.
"""

from __future__ import annotations

import argparse
import os
import shutil
import zipfile
from pathlib import Path
from typing import Iterable, Mapping, Sequence

import nox
import nox.command

from nox_support import matrix as supported_versions
from nox_support import release as release_checks
from nox_support import results
from nox_support.environments import ENVIRONMENTS, OVERRIDES, PACKAGES, ROOT, Environment
from nox_support.installing import install, install_aside, put_on_path, write_requirements
from nox_support.machine import prepare_process_environment

nox.needs_version = ">=2024.4.15"
nox.options.default_venv_backend = "uv"
nox.options.error_on_missing_interpreters = True
nox.options.sessions = ["tests"]
prepare_process_environment()

#: What `nox -s tests` gives to conftest.py.
SEED_OF_CI = "20261201"

#: What builds on the core and is released beside it.
SETS = tuple(package for package in PACKAGES if package != "patcher-core")

# A process per core, each with the whole of some test files: what a file prepares is prepared once.
IN_PARALLEL = ("--numprocesses=auto", "--maxprocesses=4", "--dist=loadfile")


def run_all(session: nox.Session, commands: Sequence[tuple[str, ...]]) -> None:
    """Run every command, also after one that failed, and fail if any did."""
    failed = []
    for command in commands:
        try:
            session.run(*command)
        except nox.command.CommandFailed:
            failed.append(" ".join(command))
    if failed:
        session.error(f"failed: {', '.join(failed)}")


def add_environment_session(environment: Environment) -> None:
    """Register the session that installs `environment` and runs its tests."""

    @nox.session(name=f"environment-{environment.name}", python=environment.python)
    def in_environment(session: nox.Session) -> None:
        """Install this environment and run its tests."""
        parser = argparse.ArgumentParser(prog=f"nox -s environment-{environment.name} --", add_help=False)
        parser.add_argument("--package", choices=PACKAGES)
        options, pytest_arguments = parser.parse_known_args(session.posargs)
        folders = environment.tests_of(options.package)
        files = [results.junit_file(environment.name, folder) for folder in folders]
        install(session, environment)
        put_on_path(session, environment.siblings)
        for variable, requirements in environment.aside.items():
            install_aside(session, variable, requirements)
        ignored = [f"--ignore={path}" for path in environment.ignore_tests]
        session.env.setdefault("OMP_NUM_THREADS", "1")
        pytest_command = ("python", "-m", "pytest", *IN_PARALLEL, *ignored)
        run_all(
            session,
            [
                (*pytest_command, folder, f"--junitxml={file}", *pytest_arguments)
                for folder, file in zip(folders, files)
            ],
        )


def queue(session: nox.Session, package: str | None, environments: Sequence[Environment]) -> None:
    """Queue the sessions of `environments` that run tests of `package` (None: of anything)."""
    results.clear()
    chosen = [environment for environment in environments if environment.tests_of(package)]
    if not chosen:
        session.error(f"no environment runs tests of packages/{package}: add one to its matrix.toml")
    for environment in chosen:
        for folder in environment.tests_of(package):
            results.junit_file(environment.name, folder)
        selection = ["--package", package] if package else []
        session.notify(f"environment-{environment.name}", [*selection, *session.posargs])


def add_tests_session(name: str, package: str | None) -> None:
    """Register the session that queues CI's part of the environments with tests of `package` (None: of anything)."""

    @nox.session(name=name, venv_backend="none")
    def queue_tests(session: nox.Session) -> None:
        """Queue the environments that run these tests, and the sum of their results."""
        os.environ.setdefault("TEST_SEED", SEED_OF_CI)
        queue(session, package, [e for e in ENVIRONMENTS.values() if not e.only_in_matrix])
        session.notify("results")


for _environment in ENVIRONMENTS.values():
    if _environment.tests:
        add_environment_session(_environment)
add_tests_session("tests", None)
for _package in PACKAGES:
    add_tests_session(f"tests-{_package}", _package)


@nox.session(venv_backend="none")
def matrix(session: nox.Session) -> None:
    """Every environment, or those of the package named after --; writes docs/supported-versions.md."""
    parser = argparse.ArgumentParser(prog="nox -s matrix --")
    parser.add_argument("package", nargs="?", choices=PACKAGES)
    package = parser.parse_args(session.posargs).package
    session.posargs.clear()
    queue(session, package, list(ENVIRONMENTS.values()))
    session.notify("supported-versions")
    session.notify("results")


@nox.session(name="previous-core", python="3.11")
def previous_core(session: nox.Session) -> None:
    """Today's patch set on the oldest and on the newest released core that it admits: -- PACKAGE."""
    package = chosen_package(session, SETS).package
    local = representative_environment(session, package).local
    tags = release_checks.releases_beside("patcher-core", local, release_checks.git_tags())
    if not tags:
        session.skip(f"{package}, with what is installed beside it, admits no released patcher-core")
    for tag in tags:
        core = checked_out(session, tag) / "packages" / "patcher-core"
        test_with_releases(session, package, ROOT, {"patcher-core": core})


@nox.session(name="previous-set", python="3.11")
def previous_set(session: nox.Session) -> None:
    """The released patch set, with its tests, on today's core: -- PACKAGE."""
    package = chosen_package(session, SETS).package
    tag = release_checks.newest_tag(package, release_checks.git_tags())
    if tag is None:
        session.skip(f"{package} was never released: there is no tag {package}-v*")
    released = checked_out(session, tag)
    conflicts = list(release_checks.shut_out(package, released))
    if conflicts:
        session.skip(f"{tag} is never installed with today's: it needs {'; '.join(conflicts)}")
    test_with_releases(session, package, released, {package: released / "packages" / package})


def representative_environment(session: nox.Session, package: str) -> Environment:
    """The environment of `package` that a user would install and that runs most of its tests, one of CI if possible."""
    found = [environment for environment in ENVIRONMENTS.values() if environment.tests_of(package)]
    if not found:
        session.error(f"no environment runs tests of packages/{package}: add one to its matrix.toml")

    def drawbacks(environment: Environment) -> tuple[bool, bool, bool, int]:
        runs_parts_alone = f"packages/{package}/tests" not in environment.tests
        is_unusual = bool(environment.without_dependencies)
        return runs_parts_alone, environment.only_in_matrix, is_unusual, len(environment.ignore_tests)

    return min(found, key=drawbacks)


def checked_out(session: nox.Session, tag: str) -> Path:
    """The tree of the release `tag`."""
    folder = Path(session.create_tmp(), tag).resolve()
    if not folder.exists():
        session.run("git", "worktree", "prune", external=True)
        session.run("git", "worktree", "add", "--detach", str(folder), tag, external=True)
    return folder


def test_with_releases(session: nox.Session, package: str, tree: Path, elsewhere: Mapping[str, Path]) -> None:
    """Run the tests of `package` in `tree`, in its representative environment, with `elsewhere` for its packages."""
    environment = representative_environment(session, package)
    install(session, environment, elsewhere)
    for variable, requirements in environment.aside.items():
        install_aside(session, variable, requirements)
    ignored = [f"--ignore={tree / path}" for path in environment.ignore_tests]
    folders = [str(tree / folder) for folder in environment.tests_of(package)]
    session.env.setdefault("OMP_NUM_THREADS", "1")
    with session.chdir(tree):
        session.run("python", "-m", "pytest", *IN_PARALLEL, *ignored, *folders)


@nox.session(name="supported-versions", venv_backend="none")
def record_supported_versions(session: nox.Session) -> None:
    """Write what the test runs before it showed into docs/supported-versions.md."""
    for row in supported_versions.record(ENVIRONMENTS):
        session.log(f"{row.package} in {row.environment}: {row.verdict}")


@nox.session(name="results", venv_backend="none")
def sum_up_results(session: nox.Session) -> None:
    """The sums of the test runs before it; fails if a test failed, or if none passed."""
    total = results.print_summary()
    if total.failed or not total.passed:
        session.error(f"{total.failed} failed" if total.failed else "no test passed")


@nox.session(python=ENVIRONMENTS["mmdet"].python)
def demo(session: nox.Session) -> None:
    """mmdet's Deformable DETR, unmodified, on mmcv-lite: fails unpatched, trains and predicts patched."""
    install(session, ENVIRONMENTS["mmdet"])
    session.run("python", "examples/deformable_detr/unpatched.py")
    session.run("python", "examples/deformable_detr/run.py", *session.posargs)


@nox.session(python=ENVIRONMENTS["lint"].python)
def lint(session: nox.Session) -> None:
    """ruff check, ruff format, and the import contract between the packages."""
    install(session, ENVIRONMENTS["lint"])
    run_all(session, [("ruff", "check"), ("ruff", "format", "--check"), ("lint-imports",)])


@nox.session(python=ENVIRONMENTS["docs"].python)
def docs(session: nox.Session) -> None:
    """The documentation site into site/; a broken link is an error."""
    install(session, ENVIRONMENTS["docs"])
    session.run("mkdocs", "build", "--strict")


@nox.session(python=ENVIRONMENTS["types"].python)
def types(session: nox.Session) -> None:
    """mypy, strict, on the core."""
    install(session, ENVIRONMENTS["types"])
    session.run("mypy", "packages/patcher-core/src")


@nox.session(python=ENVIRONMENTS["bench"].python)
def bench(session: nox.Session) -> None:
    """Every performance figure beside its peer's."""
    install(session, ENVIRONMENTS["bench"])
    session.run("python", "-m", "benchmarks", *session.posargs)


def build_distributions(session: nox.Session, packages: Iterable[str]) -> list[str]:
    """Build sdist and wheel of `packages` into an empty dist/, check what the wheels contain; return the wheels."""
    shutil.rmtree("dist", ignore_errors=True)
    for package in packages:
        session.run("uv", "build", "--quiet", "--out-dir", "dist", f"packages/{package}")
    wheels = sorted(Path("dist").glob("*.whl"))
    for wheel in wheels:
        names = zipfile.ZipFile(wheel).namelist()
        for wanted in ("/py.typed", "/licenses/LICENSE", "/METADATA"):
            if not any(name.endswith(wanted) for name in names):
                session.error(f"{wheel.name} has no {wanted[1:]}")
    return [str(wheel) for wheel in wheels]


def module_of(package: str) -> str:
    """The import name of a package of this repository."""
    (marker,) = ROOT.glob(f"packages/{package}/src/*/py.typed")
    return marker.parent.name


@nox.session(python="3.11")
def build(session: nox.Session) -> None:
    """sdist and wheel of every distribution into dist/, then all wheels together in a clean environment."""
    session.install(*build_distributions(session, PACKAGES))
    session.run("python", "-c", "; ".join(f"import {module_of(package)}" for package in PACKAGES))


def chosen_package(session: nox.Session, choices: Sequence[str] = PACKAGES) -> argparse.Namespace:
    """What `-- PACKAGE [--tag TAG]` chose."""
    parser = argparse.ArgumentParser(prog=f"nox -s {session.name} --")
    parser.add_argument("package", choices=choices)
    parser.add_argument("--tag", help="the pushed tag, where there is one already")
    return parser.parse_args(session.posargs)


@nox.session(python="3.11")
def changelog(session: nox.Session) -> None:
    """Collect the fragments of the package named after -- into its CHANGELOG.md, under its present version."""
    package = chosen_package(session).package
    session.install("towncrier")
    session.run(
        "towncrier", "build", "--yes", "--config", "towncrier.toml", "--dir", f"packages/{package}",
        "--version", str(release_checks.project_of(package)["version"]),
    )  # fmt: skip


@nox.session(python="3.11")
def release(session: nox.Session) -> None:
    """Check the package named after -- for release, build it, and try its wheel in a clean environment."""
    chosen = chosen_package(session)
    faults = list(release_checks.faults(chosen.package, chosen.tag, release_checks.git_tags()))
    if faults:
        session.error("not ready for release:\n" + "\n".join(f"  - {fault}" for fault in faults))
    upstream = representative_environment(session, chosen.package)
    dependencies = release_checks.local_dependencies(chosen.package)
    companions = [name for name in upstream.local if name not in (*dependencies, chosen.package)]
    wheels = build_distributions(session, [*dependencies, *companions, chosen.package])
    session.env["UV_OVERRIDE"] = write_requirements(session, "overrides.txt", OVERRIDES)
    session.install(*wheels, *upstream.packages)
    smoke_test = ROOT / "nox_support" / "smoke_test.py"
    session.chdir(session.create_tmp())
    session.run("python", str(smoke_test), module_of(chosen.package), *map(module_of, companions))
    session.log(f"ready: git tag {release_checks.tag_of(chosen.package)}")


@nox.session(name="new-patch-set", python="3.11")
def new_patch_set(session: nox.Session) -> None:
    """Write packages/patches-NAME from the template: -- NAME TARGET [--library DISTRIBUTION]."""
    if len(session.posargs) < 2:
        session.error("usage: nox -s new-patch-set -- NAME TARGET [--library DISTRIBUTION]")
    library = session.posargs[-1] if "--library" in session.posargs else session.posargs[1].partition(".")[0]
    session.install("jinja2", library)
    session.run("python", "-m", "nox_support.new_patch_set", *session.posargs)
