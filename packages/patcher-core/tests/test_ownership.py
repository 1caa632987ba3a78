"""Several patchers and other people's writes on one attribute."""

from __future__ import annotations

import itertools
import logging
import sys
import threading

import pytest

from patcher_core import AtomicPatch, Patcher, PatchStatus


def wrap(mark):
    def target_wrapper(original):
        def inner():
            return mark + original()

        return inner

    return target_wrapper


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_stacked_patchers_may_be_restored_in_any_order(make_module, order):
    library = make_module("stacked", "def f(): return '.'")
    original = library.f
    patchers = [
        Patcher().add(AtomicPatch("stacked.f", target_wrapper=wrap(str(i)))).apply() for i in range(3)
    ]
    assert library.f() == "210."
    alive = [2, 1, 0]
    for index in order:
        patchers[index].restore()
        alive.remove(index)
        assert library.f() == "".join(map(str, alive)) + "."
    assert library.f is original


def test_an_unconditional_replacement_above_survives_the_restore_of_a_wrapper_below(make_module):
    library = make_module("covered", "def f(): return '.'")
    original, new = library.f, lambda: "new"
    below = Patcher().add(AtomicPatch("covered.f", target_wrapper=wrap("w"))).apply()
    above = Patcher().add(AtomicPatch("covered.f", new)).apply()
    below.restore()
    assert library.f is new
    above.restore()
    assert library.f is original


def test_a_foreign_write_over_a_patch_is_left_alone_and_named(make_module, messages):
    library = make_module("overwritten", "def f(): return '.'")
    patcher = Patcher().add(AtomicPatch("overwritten.f", lambda: "new")).apply()
    foreign = library.f = lambda: "foreign"
    patcher.restore()
    assert library.f is foreign
    assert any("overwritten.f" in text and "somebody else" in text for text in messages(logging.WARNING))


def test_a_patch_over_a_foreign_write_gives_the_foreign_value_back(make_module):
    library = make_module("foreign_below", "def f(): return '.'")
    first = Patcher().add(AtomicPatch("foreign_below.f", target_wrapper=wrap("1"))).apply()
    foreign = library.f = lambda: "foreign"
    second = Patcher().add(AtomicPatch("foreign_below.f", target_wrapper=wrap("2"))).apply()
    assert library.f() == "2foreign"
    first.restore()
    assert library.f() == "2foreign"
    second.restore()
    assert library.f is foreign


def test_the_same_patch_in_a_second_patcher_is_reported_and_owns_nothing(make_module):
    library = make_module("twice", "def f(): return '.'")
    wrapper = wrap("+")
    first = Patcher(name="first").add(AtomicPatch("twice.f", target_wrapper=wrapper)).apply()
    second = Patcher().add(AtomicPatch("twice.f", target_wrapper=wrapper)).apply()
    assert library.f() == "+."
    (result,) = second.report
    assert (result.status, result.reason) == (PatchStatus.SKIPPED, "already applied by first")
    second.restore()
    assert library.f() == "+."
    first.restore()
    assert library.f() == "."


def test_two_patches_on_one_target_the_later_wins_and_both_are_named(make_module, messages):
    library = make_module("contested", "def f(): return '.'")
    early, late = (lambda: "early"), (lambda: "late")
    patcher = Patcher().add(AtomicPatch("contested.f", early), AtomicPatch("contested.f", late)).apply()
    assert library.f is late
    assert any("contested.f" in text and "replaces what" in text for text in messages(logging.WARNING))
    patcher.restore()
    assert library.f() == "."


def test_after_a_reload_the_reloaded_value_is_the_new_original(run_python):
    run_python(
        """
        import importlib
        import reloaded_lib as lib
        from patcher_core import AtomicPatch, Patcher

        def wrap(original):
            return lambda: "+" + original()

        patcher = Patcher().add(
            AtomicPatch("reloaded_lib.f", target_wrapper=wrap), AtomicPatch("reloaded_lib.C.m", lambda self: "new")
        ).apply()
        first = lib.f
        importlib.reload(lib)
        patcher.apply()
        assert lib.f() == "+." and lib.f is not first and lib.C().m() == "new"
        importlib.reload(lib)
        reloaded = lib.f
        patcher.restore()
        assert lib.f() == "." and lib.C().m() == "old"
        """,
        {"reloaded_lib.py": "def f(): return '.'\nclass C:\n    def m(self): return 'old'\n"},
    )


@pytest.fixture
def busy_threads():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def in_threads(actions):
    """Run the actions at once, each in a thread of its own; gives back what they raised."""
    raised = []
    barrier = threading.Barrier(len(actions))

    def run(action):
        barrier.wait()
        try:
            action()
        except Exception as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=(action,)) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


@pytest.mark.usefixtures("busy_threads")
def test_threads_may_apply_and_restore_at_once(make_module):
    library = make_module("threaded", "def f(): return '.'")
    original = library.f
    for _ in range(50):
        patchers = [Patcher().add(AtomicPatch("threaded.f", target_wrapper=wrap(mark))) for mark in "0123"]
        assert in_threads([patcher.apply for patcher in patchers]) == []
        assert sorted(library.f()) == sorted("0123.")
        assert in_threads([patcher.restore for patcher in patchers[::2]]) == []
        assert sorted(library.f()) == sorted("13.")
        assert in_threads([patchers[0].apply, *(patcher.restore for patcher in patchers[1::2])]) == []
        assert library.f() == "0."
        patchers[0].restore()
        assert library.f is original
