"""Targets that cannot be written, modules that cannot be imported, blocks that end with an error."""

from __future__ import annotations

import logging
import sys

import pytest

from patcher_core import AtomicPatch, Patcher, PatchStatus

UNWRITABLE = {
    "builtins.int.bit_length": "",
    "fail_frozen.C.x": "class Meta(type):\n    def __setattr__(cls, name, value): raise TypeError('frozen')\n"
    "class C(metaclass=Meta):\n    x = 1",
    "fail_mapping.TABLE.key": "class Frozen(dict):\n    def __setitem__(self, key, value): raise TypeError('frozen')\n"
    "TABLE = Frozen(key=1)",
    "fail_flag.F.A": "import enum\nclass F(enum.IntFlag):\n    A = 1",
    "fail_slots.c.x": "class C:\n    __slots__ = ('x',)\n    def __init__(self): self.x = 1\n"
    "    def __setattr__(self, name, value):\n        if hasattr(self, name): raise AttributeError('read-only')\n"
    "        object.__setattr__(self, name, value)\nc = C()",
}


@pytest.mark.parametrize("target", UNWRITABLE)
def test_a_target_that_refuses_is_named_and_the_others_go_on(make_module, messages, target):
    if UNWRITABLE[target]:
        make_module(target.split(".")[0], UNWRITABLE[target])
    library = make_module("fail_good", "def f(): return 'old'")
    patcher = Patcher().add(AtomicPatch(target, 2), AtomicPatch("fail_good.f", lambda: "new")).apply()
    assert [result.status.value for result in patcher.report] == ["failed", "applied"]
    assert library.f() == "new" and any(target in text for text in messages(logging.WARNING))
    patcher.restore()
    assert library.f() == "old"


BROKEN = {
    "raises SystemExit": ("import sys\nsys.exit('licence server not reached')", "licence server not reached"),
    "is no Python": ("def f(:\n", "SyntaxError"),
    "hides its cause": (
        "try:\n    raise OSError('libcann.so: cannot open')\nexcept OSError as e:\n"
        "    raise ImportError('please install') from e",
        "libcann.so",
    ),
    "lacks a dependency": ("import no_such_dependency_anywhere", "no_such_dependency_anywhere"),
    "imports a name that is gone": ("from os import no_such_name_anywhere", "no_such_name_anywhere"),
}


@pytest.mark.parametrize("kind", BROKEN)
@pytest.mark.parametrize("role", ["target", "replacement"])
def test_a_module_that_breaks_at_import_fails_with_its_cause(run_python, kind, role):
    source, cause = BROKEN[kind]
    target, replacement = ("broken.f", "good.f") if role == "target" else ("good.f", "broken.f")
    run_python(
        f"""
        import good
        from patcher_core import AtomicPatch, Patcher
        p = Patcher().add(AtomicPatch({target!r}, {replacement!r}), AtomicPatch("good.g", lambda: "new")).apply()
        first, second = p.report
        assert first.status.value == "failed" and {cause!r} in first.reason, first
        assert second.status.value == "applied" and good.f() == "old" and good.g() == "new"
        """,
        {"broken.py": source, "good.py": "def f(): return 'old'\ndef g(): return 'old'\n"},
    )


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit, ValueError])
def test_a_block_that_ends_with_any_error_is_restored(make_module, error):
    library = make_module("fail_block", "def f(): return 'old'")
    original = library.f
    with pytest.raises(error), Patcher().add(AtomicPatch("fail_block.f", lambda: "new")):
        raise error
    assert library.f is original


def test_nested_blocks_of_one_patcher_and_of_two(make_module):
    library = make_module("fail_nested", "def f(): return 'old'")
    outer, inner = Patcher().add(AtomicPatch("fail_nested.f", lambda: "outer")), Patcher()
    inner.add(AtomicPatch("fail_nested.f", target_wrapper=lambda f: lambda: "inner " + f()))
    with outer, inner:
        assert library.f() == "inner outer"
    with inner, outer, inner:
        assert library.f() == "outer"
    assert library.f() == "old"


def test_a_restore_that_cannot_put_a_value_back_says_so_and_goes_on(make_module, messages):
    library = make_module(
        "fail_restore",
        "class Meta(type):\n    closed = False\n    def __setattr__(cls, name, value):\n"
        "        if Meta.closed: raise TypeError('closed')\n        type.__setattr__(cls, name, value)\n"
        "class C(metaclass=Meta):\n    x = 1\ndef f(): return 'old'",
    )
    patcher = (
        Patcher()
        .add(AtomicPatch("fail_restore.C.x", 2), AtomicPatch("fail_restore.f", lambda: "new"))
        .apply()
    )
    library.Meta.closed = True
    patcher.restore()
    assert library.f() == "old" and library.C.x == 2
    assert any("fail_restore.C.x" in text and "closed" in text for text in messages(logging.WARNING))


def test_a_target_inside_a_skipped_module_is_skipped_with_that_reason(run_python):
    run_python(
        """
        from patcher_core import AtomicPatch, Patcher
        p = Patcher().skip_import("ghost").add(AtomicPatch("ghost.ops.f", lambda: 1)).apply()
        (result,) = p.report
        assert result.status.value == "skipped" and "skip_import" in result.reason, result
        """
    )


def test_statuses_are_plain_words():
    assert [status.value for status in PatchStatus] == ["applied", "skipped", "failed", "pending"]
    assert str(PatchStatus.APPLIED) == "applied"


@pytest.mark.parametrize("error", [KeyboardInterrupt, GeneratorExit, SystemExit])
def test_an_apply_that_is_interrupted_leaves_nothing_behind(make_module, error):
    library = make_module("interrupted", "def f(): return 'old'\ndef g(): return 'old'")

    def interrupt(original):
        raise error

    before = list(sys.meta_path)
    patcher = Patcher().skip_import("interrupted_absent")
    patcher.add(
        AtomicPatch("interrupted.f", lambda: "new"), AtomicPatch("interrupted.g", target_wrapper=interrupt)
    )
    with pytest.raises(error), patcher:
        pass
    assert library.f() == "old" and sys.meta_path == before and not patcher.is_applied
