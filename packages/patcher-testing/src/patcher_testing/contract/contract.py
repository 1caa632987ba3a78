"""`PatchSetContract`: the base class of a patch set's life-cycle tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Mapping, Sequence

from .environments import with_other_version, without_libraries
from .process import run, run_together
from .subject import Subject, Target
from .workers import run_in_spawned_worker


class PatchSetContract:
    """Subclass this, name what is tested, and pytest runs the whole life cycle, each part in a process of its own.

    class TestMyPatches(PatchSetContract):
        groups = "my_patches:ALL"
        libraries = ["my_library"]
    """

    #: where the list of groups is: `module:attribute`
    groups: ClassVar[str]
    #: import roots of the libraries that the groups patch
    libraries: ClassVar[Sequence[str]]
    #: modules of the libraries (and their users) that are imported besides those of the targets
    modules: ClassVar[Sequence[str]] = ()
    #: modules that the groups do not patch and that take long to import: imported once, before everything else
    imported_first: ClassVar[Sequence[str]] = ()
    #: names of groups that do not apply in this environment, and why; every other group must apply something
    not_here: ClassVar[Mapping[str, str]] = {}
    #: references to originals that are kept on purpose: modules, or names in them
    kept: ClassVar[Sequence[str]] = ()
    #: handed to every group
    options: ClassVar[Mapping[str, Any]] = {}
    #: run everything on the simulated NPU
    on_npu: ClassVar[bool] = False

    _answers: ClassVar[Any] = None

    def test_every_group_applies_something_or_is_known_not_to(self, tmp_path: Path) -> None:
        results = self._discovered(tmp_path)["results"]
        failed = [
            f"{result['name']}: {result['reason']}" for result in results if result["status"] == "failed"
        ]
        assert not failed, _listed(failed)
        applied = {result["group"] for result in results if result["status"] == "applied"}
        silent = [
            f"{group}: nothing was applied; "
            + "; ".join(
                result["reason"] for result in results if result["group"] == group or result["name"] == group
            )
            for group in self._discovered(tmp_path)["groups"]
            if group not in applied and group not in self.not_here
        ]
        assert not silent, _listed(silent)
        wrong = [
            f"{group}: applied, although not_here says {reason!r}"
            for group, reason in self.not_here.items()
            if group in applied
        ]
        assert not wrong, _listed(wrong)

    def test_a_library_imported_before_is_patched(self, tmp_path: Path) -> None:
        self._run("imported_before", tmp_path)

    def test_a_library_imported_after_is_patched(self, tmp_path: Path) -> None:
        self._run("imported_after", tmp_path)

    def test_a_lazy_apply_imports_nothing_and_patches_what_is_imported_later(self, tmp_path: Path) -> None:
        self._run("applied_lazily", tmp_path)

    def test_applying_twice_replaces_once(self, tmp_path: Path) -> None:
        self._run("applied_twice", tmp_path)

    def test_restoring_gives_the_identical_objects_back_and_applying_again_works(
        self, tmp_path: Path
    ) -> None:
        self._run("restored", tmp_path)

    def test_a_disabled_group_touches_nothing(self, tmp_path: Path) -> None:
        self._run("disabled", tmp_path)

    def test_without_the_library_nothing_fails(self, tmp_path: Path) -> None:
        path = without_libraries(self.libraries, _new_folder(tmp_path, "links"))
        self._check(run("library_absent", self._subject(tmp_path), tmp_path / "answer", path))

    def test_a_library_outside_the_pins_is_left_alone(self, tmp_path: Path) -> None:
        path = with_other_version(self.libraries, _new_folder(tmp_path, "links"))
        self._check(run("library_of_another_version", self._subject(tmp_path), tmp_path / "answer", path))

    def test_what_is_installed_pickles_where_the_original_did(self, tmp_path: Path) -> None:
        self._run("pickled", tmp_path)

    def test_spawned_workers_are_patched(self, tmp_path: Path) -> None:
        problems = run_in_spawned_worker(self._subject(tmp_path), tmp_path)
        assert not problems, _listed(problems)

    def test_no_stale_reference_is_left(self, tmp_path: Path) -> None:
        self._run("stale_references", tmp_path)

    def test_every_replacement_fits_upstreams_callers(self, tmp_path: Path) -> None:
        self._run("signatures", tmp_path)

    def test_every_group_declares_why_upstream_and_requires_under_a_name_of_its_own(
        self, tmp_path: Path
    ) -> None:
        self._run("declarations", tmp_path)

    @classmethod
    def _answer(cls, name: str, folder: Path) -> Any:
        if "_answers" not in cls.__dict__:
            cls._answers = run_together(cls._bare_subject(), _new_folder(folder, "together") / "answer")
        return cls._answers[name]

    @classmethod
    def _discovered(cls, folder: Path) -> Any:
        found = cls._answer("discover", folder)
        assert isinstance(found, dict), _listed(found)
        return found

    @classmethod
    def _bare_subject(cls, targets: Sequence[Target] = ()) -> Subject:
        return Subject(
            groups=cls.groups,
            libraries=tuple(cls.libraries),
            modules=tuple(cls.modules),
            imported_first=tuple(cls.imported_first),
            kept=tuple(cls.kept),
            options=dict(cls.options),
            on_npu=cls.on_npu,
            targets=tuple(targets),
        )

    @classmethod
    def _subject(cls, folder: Path) -> Subject:
        applied = [result for result in cls._discovered(folder)["results"] if result["status"] == "applied"]
        assert applied, "nothing at all was applied, so nothing can be tested"
        return cls._bare_subject([Target(result["name"], result["group"]) for result in applied])

    def _run(self, name: str, folder: Path) -> None:
        self._subject(folder)
        self._check(self._answer(name, folder))

    @staticmethod
    def _check(problems: Sequence[str]) -> None:
        assert not problems, _listed(problems)


def _new_folder(parent: Path, name: str) -> Path:
    folder = parent / name
    folder.mkdir()
    return folder


def _listed(problems: Sequence[str]) -> str:
    return "\n".join(["", *(f"- {problem}" for problem in problems)])
