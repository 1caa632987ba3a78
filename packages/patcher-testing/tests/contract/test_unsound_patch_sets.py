"""Each unsound patch set is caught, with the target and what is wrong with it."""

from __future__ import annotations

import pytest

from patcher_testing.contract import PatchSetContract
from patcher_testing.contract.process import run
from patcher_testing.contract.subject import Subject, Target


def problems(folder, scenario, groups, *targets, **more):
    subject = Subject(
        groups=f"unsound_patches:{groups}",
        libraries=("wooden",),
        targets=tuple(Target(target, "the group") for target in targets or ["wooden.plane"]),
        **more,
    )
    return "\n".join(run(scenario, subject, folder / "answer"))


def test_a_patch_that_writes_by_itself_does_not_give_back_the_identical_object(tmp_path):
    text = problems(tmp_path, "restored", "WRITES_BY_ITSELF", "wooden.plane", "wooden.Saw.cut")
    assert "wooden.Saw.cut: holds" in text and "expected the very object it held before" in text
    assert "wooden.plane" not in text


def test_a_replacement_that_does_not_pickle(tmp_path):
    assert "wooden.plane: <function NotPicklable" in problems(tmp_path, "pickled", "NOT_PICKLABLE")


def test_a_replacement_that_lacks_a_parameter(tmp_path):
    text = problems(tmp_path, "signatures", "WITHOUT_DEPTH")
    assert "wooden.plane" in text and "'depth'" in text


def test_a_reference_that_was_not_rebound(tmp_path):
    text = problems(tmp_path, "stale_references", "NOT_REBOUND", modules=("wooden_user",))
    assert "wooden_user.smooth: still holds the original of wooden.plane" in text


def test_a_reference_that_a_patch_set_keeps_must_be_named(tmp_path):
    text = problems(tmp_path, "stale_references", "NOT_REBOUND")
    assert text == "unsound_patches.ORIGINAL: still holds the original of wooden.plane"
    (tmp_path / "answer").unlink()
    assert problems(tmp_path, "stale_references", "NOT_REBOUND", kept=("unsound_patches.ORIGINAL",)) == ""


def test_a_group_without_reasons_or_a_name_of_its_own(tmp_path):
    text = problems(tmp_path, "declarations", "UNDECLARED")
    assert "Undeclared: has no `why`" in text
    assert "Undeclared: has no `upstream`" in text
    assert "Undeclared: has neither `requires` nor a `library`" in text
    assert "SameName: its name 'Undeclared' is also that of Undeclared" in text


def test_a_group_that_is_applied_outside_its_pins(tmp_path):
    assert "wooden.plane: applied in a version outside the pins" in problems(
        tmp_path, "library_of_another_version", "WITHOUT_PINS"
    )


def test_a_target_that_is_not_replaced(tmp_path):
    assert "wooden.Saw.cut: not in the report, expected applied" in problems(
        tmp_path, "imported_before", "NOT_REBOUND", "wooden.Saw.cut"
    )


def test_a_patch_set_that_imports_its_library_when_it_is_imported(tmp_path):
    text = problems(tmp_path, "imported_after", "NOT_REBOUND")
    assert text == "wooden: imported by the patch set's own import, before anything was applied"


def test_a_group_that_silently_does_nothing(tmp_path):
    class Ineffective(PatchSetContract):
        groups = "unsound_patches:INEFFECTIVE"
        libraries = ("wooden",)

    with pytest.raises(AssertionError, match="Ineffective: nothing was applied"):
        Ineffective().test_every_group_applies_something_or_is_known_not_to(tmp_path)


def test_a_process_that_dies_is_a_failure_with_its_output(tmp_path):
    subject = Subject(groups="no_such_module:ALL", libraries=())
    with pytest.raises(AssertionError, match="ended with status"):
        run("no such scenario", subject, tmp_path / "missing" / "answer")


def test_a_patch_that_ends_its_process_fails_every_test_with_what_it_said(tmp_path):
    class Dies(PatchSetContract):
        groups = "unsound_patches:DIES"
        libraries = ("wooden",)

    with pytest.raises(AssertionError, match=r"(?s)ended its process with status .*out of wood"):
        Dies().test_every_group_applies_something_or_is_known_not_to(tmp_path)
    with pytest.raises(AssertionError, match=r"(?s)ended its process with status .*out of wood"):
        Dies().test_a_library_imported_before_is_patched(tmp_path)
