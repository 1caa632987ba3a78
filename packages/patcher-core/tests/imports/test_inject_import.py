"""inject_import: a name for a module that does not export it."""

from __future__ import annotations

import sys
import types

import pytest

from patcher_core import Patcher

FILES = {
    "pkg/__init__.py": "__all__ = ['Old']\nOld = 1\n",
    "pkg/heads.py": "class Head: pass\nclass Old: pass\n",
    "pkg/broken.py": "import missing_dep\n",
    "pkg/chained.py": """
        try:
            import missing_dep
        except ImportError as error:
            raise RuntimeError("no heads") from error
        """,
}


def test_the_name_is_there_at_once_and_star_import_sees_it(run_controlled):
    run_controlled(
        """
        control.inject("pkg.heads", "Head", "pkg")
        import pkg
        from pkg import *
        assert Head is pkg.Head is pkg.heads.Head and control.outcomes[0].status == "active"
        assert (control.outcomes[0].kind, control.outcomes[0].name) == ("injected", "pkg.Head")
    """,
        FILES,
    )


@pytest.mark.parametrize("exported", ["['Old']", "('Old',)", "{'Old'}", "frozenset({'Old'})"])
def test_all_keeps_its_type_and_comes_back_identical(run_controlled, exported):
    run_controlled(
        """
        import pkg
        before, attributes = pkg.__all__, set(vars(pkg)) | {"heads"}
        control.inject("pkg.heads", "Head", "pkg")
        assert type(pkg.__all__) is type(before)
        assert set(pkg.__all__) == {"Old", "Head"} and set(before) == {"Old"}
        control.restore()
        assert pkg.__all__ is before and set(vars(pkg)) == attributes
        control.activate()
        assert pkg.Head is pkg.heads.Head and "Head" in pkg.__all__
    """,
        {**FILES, "pkg/__init__.py": f"__all__ = {exported}\nOld = 1\n"},
    )


def test_a_module_without_all_gets_none(run_controlled):
    run_controlled(
        """
        control.inject("pkg.heads", "Head", "plain")
        import plain
        assert plain.Head and not hasattr(plain, "__all__")
    """,
        {**FILES, "plain.py": ""},
    )


def test_a_list_shared_with_another_module_is_not_changed_there(run_controlled):
    run_controlled(
        """
        import shared
        control.inject("pkg.heads", "Head", "shared")
        from pkg import *
        assert "Head" not in globals() and "Head" in shared.__all__
    """,
        {**FILES, "shared.py": "from pkg import *\nfrom pkg import __all__\n"},
    )


def test_restore_keeps_what_others_added_to_all(run_controlled):
    run_controlled(
        """
        import pkg
        control.inject("pkg.heads", "Head", "pkg")
        pkg.__all__ += ["Theirs"]
        control.restore()
        assert pkg.__all__ == ["Old", "Theirs"]
    """,
        FILES,
    )


def test_a_name_that_is_there_is_never_overwritten(run_controlled):
    run_controlled(
        """
        control.inject("pkg.heads", "Old", "pkg")
        import pkg
        assert pkg.Old == 1 and control.outcomes[0].status == "failed" and "Old" in control.outcomes[0].reason
        assert len(records.warnings()) == 1
        control.restore()
        assert pkg.Old == 1
    """,
        FILES,
    )


def test_a_name_that_a_lazy_module_would_answer_is_there(run_controlled):
    run_controlled(
        """
        control.inject("pkg.heads", "Head", "lazy")
        import lazy
        assert lazy.Head == "lazily" and "Head" not in vars(lazy)
    """,
        {**FILES, "lazy.py": "def __getattr__(name):\n    return 'lazily'\n"},
    )


def test_injecting_the_same_object_twice_is_fine(run_controlled):
    run_controlled(
        """
        second = ImportControl()
        control.inject("pkg.heads", "Head", "pkg")
        second.inject("pkg.heads", "Head", "pkg")
        import pkg
        assert pkg.__all__ == ["Old", "Head"] and records.warnings() == []
        second.restore()
        assert pkg.Head
        control.restore()
        assert not hasattr(pkg, "Head") and pkg.__all__ == ["Old"]
    """,
        FILES,
    )


def test_restore_leaves_a_name_that_somebody_else_wrote_since(run_controlled):
    run_controlled(
        """
        control.inject("pkg.heads", "Head", "pkg")
        import pkg
        pkg.Head = "theirs"
        control.restore()
        assert pkg.Head == "theirs" and "Head" in pkg.__all__
    """,
        FILES,
    )


@pytest.mark.parametrize(
    ("source", "name", "target", "cause"),
    [
        ("pkg.heads", "NoSuch", "pkg", "NoSuch"),
        ("pkg.broken", "Head", "pkg", "missing_dep"),
        ("pkg.chained", "Head", "pkg", "missing_dep"),
        ("pkg.heads", "Head", "pkg.broken", "missing_dep"),
        ("nowhere.x", "Head", "pkg", "nowhere"),
        ("pkg.heads", "Head", "nowhere", "nowhere"),
    ],
)
def test_a_failure_is_a_warning_with_its_cause_and_nothing_half_done(
    run_controlled, source, name, target, cause
):
    run_controlled(
        f"""
        control.inject({source!r}, {name!r}, {target!r})
        assert len(records.warnings()) == 1 and {cause!r} in records.warnings()[0], records.lines
        assert control.outcomes[0].status == "failed" and {cause!r} in control.outcomes[0].reason
        import pkg
        assert pkg.__all__ == ["Old"] and not hasattr(pkg, {name!r})
    """,
        FILES,
    )


def test_a_submodule_can_be_injected(run_controlled):
    run_controlled(
        """
        control.inject("pkg", "heads", "plain")
        import plain, pkg.heads
        assert plain.heads is pkg.heads
    """,
        {**FILES, "plain.py": ""},
    )


def test_a_module_that_ends_the_program_when_imported_is_a_failure(run_controlled):
    run_controlled(
        """
        control.inject("exiting", "Head", "pkg")
        assert control.outcomes[0].status == "failed" and "no device" in control.outcomes[0].reason
        """,
        {**FILES, "exiting.py": "raise SystemExit('no device')\n"},
    )


def test_a_stub_is_never_injected(run_controlled):
    run_controlled(
        """
        control.skip("ext")
        control.inject("ext.heads", "Head", "pkg")
        control.inject("pkg.heads", "Head", "ext")
        import pkg
        assert not hasattr(pkg, "Head")
        for outcome in control.outcomes[1:]:
            assert outcome.status == "failed" and "skipped" in outcome.reason, outcome
        """,
        FILES,
    )


def test_a_target_that_refuses_is_reported_and_does_not_end_the_program(monkeypatch):
    class ReadOnly(types.ModuleType):
        def __setattr__(self, name, value):
            raise AttributeError(f"{name} is read-only")

    monkeypatch.setitem(sys.modules, "inject_read_only", ReadOnly("inject_read_only"))
    (outcome,) = Patcher().inject_import("json", "dumps", "inject_read_only").report.imports
    assert outcome.status != "active" and "dumps is read-only" in outcome.reason
