"""Environment steps: what apply() does once for the whole program."""

from __future__ import annotations

import logging

import pytest

from patcher_core import (
    AtomicPatch,
    EnvironmentStep,
    Patch,
    Patcher,
    PatchError,
    configure_patcher_logging,
    register_backend,
)


def make_step(**members):
    """A step that notes what is called on it in ``step.calls``."""
    calls: list = []

    class Step(EnvironmentStep):
        name = "the_step"

        @classmethod
        def prepare(cls):
            calls.append("prepare")

        @classmethod
        def patched(cls, written):
            calls.append("written" if written else "taken away")
            return ""

        @classmethod
        def run(cls, settings):
            calls.append(("run", dict(settings)))
            return "done"

    for name, value in members.items():
        setattr(Step, name, value)
    Step.calls = calls
    return Step


def notes_of(patcher, *names):
    """The lines of the report about these steps, without those of steps that happen to be installed."""
    return [note for note in patcher.report.notes if note.partition(":")[0] in names]


@pytest.fixture
def library(make_module):
    return make_module("env_lib", "def f(): return 'old'")


@pytest.fixture
def strict():
    configure_patcher_logging(on_fail="exception")
    yield
    configure_patcher_logging(on_fail="warning")


def test_a_step_prepares_before_patches_and_runs_after_them(library):
    step = make_step()
    seen = {}
    step.prepare = classmethod(lambda cls: seen.update(prepare=library.f()))
    step.run = classmethod(lambda cls, settings: seen.update(run=library.f()))
    patcher = Patcher().add(AtomicPatch("env_lib.f", lambda: "new"), step).apply()
    patcher.restore()
    assert seen == {"prepare": "old", "run": "new"}


def test_its_outcome_is_a_line_of_the_report_and_of_the_summary(messages):
    patcher = Patcher().add(make_step()).apply()
    assert notes_of(patcher, "the_step") == ["the_step: done"]
    assert any("the_step: done" in message for message in messages())
    patcher.restore()
    assert patcher.report.notes == ()


def test_it_hears_of_patches_that_come_and_go(library):
    step = make_step()
    patcher = Patcher().add(AtomicPatch("env_lib.f", lambda: "new"), step).apply()
    patcher.restore()
    assert step.calls == ["prepare", "written", ("run", {}), "taken away"]


def test_it_hears_of_patches_of_a_lazy_apply(run_python):
    run_python(
        """
        import sys
        from patcher_core import AtomicPatch, EnvironmentStep, Patcher

        heard = []

        class Step(EnvironmentStep):
            @classmethod
            def patched(cls, written):
                heard.append((written, "later" in sys.modules))

        Patcher().add(AtomicPatch("later.f", lambda: "new"), Step).apply(lazy=True)
        import later
        assert heard == [(True, False), (True, True)], heard
        """,
        {"later.py": "def f(): return 'old'"},
    )


@pytest.mark.parametrize("how", ["name", "legacy name", "class"])
def test_a_disabled_step_does_nothing_and_the_report_says_so(how, messages):
    step = make_step(legacy_name="old_step")
    disabled = {"name": "the_step", "legacy name": "old_step", "class": step}[how]
    patcher = Patcher().add(step).disable(disabled).apply()
    assert step.calls == []
    assert notes_of(patcher, "the_step") == ["the_step: disabled"]
    assert not messages(logging.WARNING)


def test_a_step_without_its_backend_does_not_run_and_the_report_says_why():
    register_backend("absent_device", lambda: "no such device")
    step = make_step(backends=("absent_device",))
    patcher = Patcher().add(step).apply()
    assert notes_of(patcher, "the_step") == ["the_step: needs absent_device (no such device)"]
    assert ("run", {}) not in step.calls


def test_a_setting_reaches_a_step_and_a_change_runs_it_again():
    step = make_step(settings=("allow_internal_format",))
    other = make_step(name="other")
    patcher = Patcher().add(step, other).allow_internal_format()
    assert step.calls == []
    patcher.apply()
    patcher.disallow_internal_format()
    runs = [call[1] for call in step.calls if call[0] == "run"]
    assert runs == [{"allow_internal_format": True}, {"allow_internal_format": False}]
    assert len([call for call in other.calls if call[0] == "run"]) == 1


def test_apply_takes_the_setting_as_well():
    step = make_step(settings=("allow_internal_format",))
    Patcher().add(step).apply(allow_internal_format=True)
    assert step.calls[-1] == ("run", {"allow_internal_format": True})


def test_a_setting_must_be_a_bool():
    with pytest.raises(TypeError, match="allow must be True or False, got 1"):
        Patcher().allow_internal_format(1)


def test_a_step_that_raises_is_reported_and_stops_nobody(library, messages):
    def broken(cls, settings):
        raise OSError("no driver")

    other = make_step(name="other")
    patcher = Patcher().add(
        AtomicPatch("env_lib.f", lambda: "new"), make_step(run=classmethod(broken)), other
    )
    patcher.apply()
    assert library.f() == "new"
    expected = ["the_step: failed: OSError: no driver", "other: done"]
    assert notes_of(patcher, "the_step", "other") == expected
    assert any("the_step" in message and "no driver" in message for message in messages(logging.WARNING))
    patcher.restore()


def test_in_strict_mode_a_step_that_raises_undoes_the_patches(library, strict):
    def broken(cls, settings):
        raise OSError("no driver")

    patcher = Patcher().add(AtomicPatch("env_lib.f", lambda: "new"), make_step(run=classmethod(broken)))
    with pytest.raises(PatchError, match="no driver"):
        patcher.apply()
    assert library.f() == "old"
    assert not patcher.is_applied


def test_applying_a_patch_on_its_own_runs_no_steps(run_python):
    run_python(
        """
        from patcher_core import AtomicPatch
        import lib, steps
        AtomicPatch("lib.f", lambda: "new").apply()
        assert lib.f() == "new" and not steps.ran
        """,
        {"lib.py": "def f(): return 'old'", **installed_steps()},
    )


def test_a_step_is_a_patch_as_far_as_documentation_goes():
    assert issubclass(EnvironmentStep, Patch)
    assert EnvironmentStep.patches() == []


# ---------------------------------------------------------------- installed steps
def installed_steps(source: str = "") -> dict[str, str]:
    """Files of a distribution whose step sets up ``env_lib``."""
    default = """
from patcher_core import EnvironmentStep

ran = []

class Installed(EnvironmentStep):
    name = "installed"
    library = "env_lib"

    @classmethod
    def run(cls, settings):
        ran.append(1)
        return "done"

STEPS = (Installed,)
"""
    return {
        "steps.py": source or default,
        "a_set-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: a-set\nVersion: 1.0\n",
        "a_set-1.0.dist-info/entry_points.txt": "[patcher.environment]\nenv_lib = steps\n",
    }


def test_every_patcher_takes_the_installed_steps(run_python):
    run_python(
        """
        from patcher_core import Patcher
        for _ in range(2):
            patcher = Patcher().apply()
            assert "installed: done" in patcher.report.notes, patcher.report.notes
        """,
        {"env_lib.py": "", **installed_steps()},
    )


def test_where_the_library_is_absent_nothing_is_loaded_or_said(run_python):
    run_python(
        """
        import sys
        from patcher_core import Patcher
        for lazy in (False, True):
            Patcher().apply(lazy=lazy)
        assert "steps" not in sys.modules
        """,
        installed_steps(),
    )


def test_a_lazy_apply_imports_nothing_and_runs_the_step_before_the_importer_sees_the_library(run_python):
    run_python(
        """
        import sys
        from patcher_core import Patcher
        patcher = Patcher().apply(lazy=True)
        assert "steps" not in sys.modules and "env_lib" not in sys.modules
        assert patcher.report.notes == ()
        import importer
        assert "installed: done" in importer.notes, importer.notes
        """,
        {
            "env_lib.py": "",
            "importer.py": """
                import env_lib
                import __main__
                notes = __main__.patcher.report.notes
                """,
            **installed_steps(),
        },
    )


def test_after_restore_a_waiting_step_does_not_run_any_more(run_python):
    run_python(
        """
        import sys
        from patcher_core import Patcher
        Patcher().apply(lazy=True).restore()
        import env_lib
        assert "steps" not in sys.modules
        """,
        {"env_lib.py": "", **installed_steps()},
    )


def test_a_step_that_waits_may_be_disabled_without_a_warning(run_python):
    done = run_python(
        """
        from patcher_core import Patcher
        patcher = Patcher().disable("installed").apply(lazy=True)
        import env_lib, steps
        assert "installed: disabled" in patcher.report.notes and not steps.ran
        """,
        {"env_lib.py": "", **installed_steps()},
    )
    assert "WARNING" not in done.stderr


def test_a_module_of_steps_that_does_not_load_is_one_line_and_stops_nobody(run_python):
    done = run_python(
        """
        from patcher_core import Patcher
        patcher = Patcher().apply()
        notes = patcher.report.notes
        assert "steps: does not load: OSError: broken" in notes, notes
        """,
        {"env_lib.py": "", **installed_steps("raise OSError('broken')")},
    )
    assert done.stderr.count("WARNING") == 1
