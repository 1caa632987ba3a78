"""1.0 function patches: what they wrote is reported and undone."""

from __future__ import annotations

import logging
import sys

import pytest

from patcher_core import LegacyPatch, Patch, Patcher, PatchStatus


def run(func, module, options=None):
    patcher = Patcher().add(LegacyPatch(func, options, target_module=module)).apply()
    return patcher, [(result.status.value, result.name) for result in patcher.report]


def test_writes_are_reported_by_target_and_undone(make_module):
    library = make_module(
        "leg_lib", "def f(): return 'old'\nclass C:\n    def m(self): return 'old'\nGONE = 1"
    )
    f, m = library.f, library.C.m

    def patch(module, options):
        module.f = lambda: options["value"]
        module.C.m = lambda self: "new"
        module.added = 1
        del module.GONE

    patcher, lines = run(patch, "leg_lib", {"value": 5})
    assert library.f() == 5 and library.C().m() == "new"
    assert sorted(lines) == [("applied", f"leg_lib.{name}") for name in ("C.m", "GONE", "added", "f")]
    patcher.apply()
    patcher.restore()
    assert library.f is f and library.C.m is m and library.GONE == 1 and not hasattr(library, "added")


def test_a_counter_that_somebody_else_advances_meanwhile_is_not_a_write_of_the_function(make_module):
    library = make_module("leg_counted", "def f(): return 'old'\nLIMIT = 1")
    other = make_module("leg_counter", "COUNT = 1\nELAPSED = 0.5\ndef f(): return 'old'")
    imported = make_module("leg_imported", "LIMIT = 1")

    def count():  # as a thread, or a callback of the garbage collector, would
        sys.modules["leg_counter"].COUNT += 1
        sys.modules["leg_counter"].ELAPSED += 0.5

    def patch(module, options):
        import leg_imported

        module.f = lambda: "new"
        module.LIMIT = leg_imported.LIMIT = 2
        count()

    patcher, lines = run(patch, "leg_counted")
    assert sorted(lines) == [
        ("applied", "leg_counted.LIMIT"),
        ("applied", "leg_counted.f"),
        ("applied", "leg_imported.LIMIT"),
    ]
    patcher.restore()
    assert (library.LIMIT, imported.LIMIT, other.COUNT, other.ELAPSED) == (1, 1, 2, 1.0)


@pytest.mark.skipif(sys.version_info < (3, 9), reason="dict[str, int] came with CPython 3.9")
def test_generic_aliases_in_the_module_are_not_taken_for_classes(make_module):
    library = make_module("leg_alias", "Names = dict[str, int]\ndef f(): return 'old'")

    def patch(module, options):
        module.f = lambda: "new"

    patcher, lines = run(patch, "leg_alias")
    assert lines == [("applied", "leg_alias.f")] and library.f() == "new"
    patcher.restore()
    assert library.f() == "old"


def test_a_wrapping_function_is_applied_once_and_again_after_restore(make_module):
    library = make_module("leg_wrap", "def f(): return '.'")

    def patch(module, options):
        before = module.f
        module.f = lambda: "+" + before()

    patcher, _ = run(patch, "leg_wrap")
    patcher.apply()
    assert library.f() == "+."
    patcher.restore().apply()
    assert library.f() == "+."


def test_copies_follow_a_legacy_write(make_module):
    make_module("leg_copies", "def f(): return 'old'")
    user = make_module("leg_copies_user", "from leg_copies import f")

    def patch(module, options):
        module.f = lambda: "new"

    patcher, _ = run(patch, "leg_copies")
    assert user.f() == "new"
    patcher.restore()
    assert user.f() == "old"


def test_a_function_that_wrote_nothing_is_not_called_applied(make_module):
    make_module("leg_nothing")

    def patch(module, options):
        if hasattr(module, "f"):
            module.f = None

    patcher, _ = run(patch, "leg_nothing")
    (result,) = patcher.report
    assert result.status is PatchStatus.SKIPPED and "wrote nothing" in result.reason


@pytest.mark.parametrize(("error", "status"), [(AttributeError, "skipped"), (ValueError, "failed")])
def test_writes_before_an_error_are_undone_and_the_error_is_said_aloud(make_module, messages, error, status):
    library = make_module("leg_half", "def f(): return 'old'")
    f = library.f

    def patch(module, options):
        module.f = None
        raise error("half way")

    _, lines = run(patch, "leg_half")
    assert library.f is f and lines == [(status, "leg_half.patch")]
    assert any("half way" in text for text in messages(logging.WARNING))


def test_writes_into_a_registry_of_the_package_are_undone(make_module):
    registry = make_module(
        "leg_registry",
        "class Registry:\n"
        "    def __init__(self): self._module_dict = {'Conv': int}\n"
        "    def register_module(self, name, module): self._module_dict[name] = module\n"
        "MODELS = Registry()",
    ).MODELS

    def patch(module, options):
        module.MODELS.register_module("Conv", str)

    patcher, lines = run(patch, "leg_registry")
    assert registry._module_dict == {"Conv": str} and lines == [
        ("applied", "leg_registry.MODELS._module_dict.Conv")
    ]
    patcher.restore()
    assert registry._module_dict == {"Conv": int}


def test_what_it_imported_itself_is_said(run_python):
    run_python(
        """
        import shallow
        from patcher_core import LegacyPatch, Patcher
        def patch(module, options):
            import shallow.deep
            shallow.deep.f = None
        (result,) = Patcher().add(LegacyPatch(patch, target_module="shallow")).apply().report
        assert "shallow" in result.reason and "not recorded" in result.reason, result
        """,
        {"shallow/__init__.py": "", "shallow/deep.py": "def f(): pass\n"},
    )


def test_an_absent_module_is_skipped():
    patcher, lines = run(lambda module, options: None, "leg_no_such_module")
    assert (
        lines[0][0] == "skipped"
        and "module not found: leg_no_such_module" in patcher.report.results[0].reason
    )


def test_the_1_0_form_of_patch():
    def low(module, options):
        module.low = options

    first = Patch(low, {"a": 1}, priority=3, patch_failure_warning=False)
    second = Patch(test_the_1_0_form_of_patch, priority=-1)
    assert (
        first.func,
        first.name,
        first.options,
        first.priority,
        first.patch_failure_warning,
        first.is_applied,
    ) == (
        low,
        "low",
        {"a": 1},
        3,
        False,
        False,
    )
    assert sorted([first, second]) == [second, first] and isinstance(first, Patch)


def test_the_1_0_form_refuses_what_is_no_function():
    with pytest.raises(TypeError, match="func must be callable"):
        Patch("msda")
    with pytest.raises(TypeError, match="priority"):
        Patch(run, priority="high")
