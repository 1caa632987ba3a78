"""``apply(lazy=True)``: nothing is imported on the patcher's account, and importers never see the original."""

from __future__ import annotations

import importlib
import sys
import threading

import pytest

from patcher_core import AtomicPatch, EnvironmentStep, Patcher, PatchError, configure_patcher_logging

FILES = {
    "lib/__init__.py": "",
    "lib/ops.py": "def f(): return 'old'\nclass C:\n    def m(self): return 'old'\n",
    "lib/user.py": "from lib.ops import f\ndef call(): return f()\n",
}


def test_targets_are_armed_and_applied_before_the_importer_sees_the_module(run_python):
    run_python(
        """
        import sys
        from patcher_core import AtomicPatch, Patcher
        p = Patcher().add(AtomicPatch("lib.ops.f", lambda: "new"), AtomicPatch("lib.ops.C.m", lambda self: "new"))
        p.apply(lazy=True)
        assert not [name for name in sys.modules if name.startswith("lib")]
        assert [r.status.value for r in p.report] == ["pending", "pending"], p.report.results
        assert "waiting for the import of lib" in p.report.results[0].reason
        from lib.ops import f, C
        assert f() == C().m() == "new"
        import lib.user
        assert lib.user.call() == "new"
        assert [r.status.value for r in p.report] == ["applied", "applied"]
        p.restore()
        assert lib.ops.f() == C().m() == lib.user.call() == f() == "old" or lib.user.call() == "old"
        assert lib.ops.f() == "old" and C().m() == "old"
        """,
        FILES,
    )


def test_a_module_that_is_imported_already_is_patched_at_once(run_python):
    run_python(
        """
        import lib.user
        from patcher_core import AtomicPatch, Patcher
        Patcher().add(AtomicPatch("lib.ops.f", lambda: "new")).apply(lazy=True)
        assert lib.user.call() == "new"
        """,
        FILES,
    )


def test_restore_before_the_import_leaves_the_module_alone(run_python):
    run_python(
        """
        import sys
        from patcher_core import AtomicPatch, Patcher
        finders = list(sys.meta_path)
        p = Patcher().add(AtomicPatch("lib.ops.f", lambda: "new")).apply(lazy=True).restore()
        assert sys.meta_path == finders
        import lib.user
        assert lib.user.call() == "old"
        """,
        FILES,
    )


def test_copies_taken_inside_the_package_while_it_is_imported_are_rebound(run_python):
    run_python(
        """
        from patcher_core import AtomicPatch, Patcher
        p = Patcher().add(AtomicPatch("pkg.f", lambda: "new")).apply(lazy=True)
        import pkg
        assert pkg.f() == pkg.inner.call() == "new"
        """,
        {
            "pkg/__init__.py": "def f(): return 'old'\nfrom . import inner\n",
            "pkg/inner.py": "from pkg import f\ndef call(): return f()\n",
        },
    )


def test_a_submodule_that_its_package_imports_is_patched_before_the_package_copies_from_it(run_python):
    run_python(
        """
        from patcher_core import AtomicPatch, Patcher
        Patcher().add(AtomicPatch("pkg.inner.f", lambda: "new")).apply(lazy=True)
        import pkg
        assert pkg.TAKEN == "new"
        """,
        {"pkg/__init__.py": "from .inner import f\nTAKEN = f()\n", "pkg/inner.py": "def f(): return 'old'\n"},
    )


def test_a_target_that_turns_out_not_to_exist_is_skipped_when_its_module_comes(run_python):
    run_python(
        """
        from patcher_core import AtomicPatch, Patcher
        p = Patcher().add(AtomicPatch("lib.ops.gone", 1), AtomicPatch("lib.nowhere.f", 1)).apply(lazy=True)
        import lib
        assert [r.status.value for r in p.report] == ["pending", "skipped"], p.report.results
        import lib.ops
        assert [r.status.value for r in p.report] == ["skipped", "skipped"]
        assert p.report.results[0].reason == "target not found: lib.ops.gone"
        """,
        FILES,
    )


def test_a_reload_is_patched_again_at_once(run_python):
    run_python(
        """
        import importlib
        import lib.ops
        from patcher_core import AtomicPatch, Patcher
        for lazy in (False, True):
            p = Patcher().add(AtomicPatch("lib.ops.f", target_wrapper=lambda f: lambda: "+" + f()),
                              AtomicPatch("lib.ops.C.m", lambda self: "new"))
            p.apply(lazy=lazy)
            importlib.reload(lib.ops)
            assert lib.ops.f() == "+old" and lib.ops.C().m() == "new"
            p.restore()
            assert lib.ops.f() == "old" and lib.ops.C().m() == "old"
        """,
        FILES,
    )


def test_the_importer_is_not_disturbed_by_a_patch_that_fails(run_python):
    done = run_python(
        """
        from patcher_core import AtomicPatch, Patcher
        def broken(original):
            raise ValueError("cannot wrap this")
        p = Patcher().add(AtomicPatch("lib.ops.f", target_wrapper=broken)).apply(lazy=True)
        from lib.ops import f
        assert f() == "old" and p.report.failed
        """,
        FILES,
    )
    assert "cannot wrap this" in done.stderr


def test_a_later_eager_apply_imports_what_is_still_pending(run_python):
    run_python(
        """
        from patcher_core import AtomicPatch, Patcher
        p = Patcher().add(AtomicPatch("lib.ops.f", lambda: "new")).apply(lazy=True).apply()
        assert [r.status.value for r in p.report] == ["applied"]
        """,
        FILES,
    )


def test_modules_of_lazy_loader_are_patched_at_their_first_use(run_python):
    run_python(
        """
        import importlib.util, sys
        from patcher_core import AtomicPatch, Patcher
        p = Patcher().add(AtomicPatch("lib.ops.f", lambda: "new")).apply(lazy=True)
        import lib
        spec = importlib.util.find_spec("lib.ops")
        loader = importlib.util.LazyLoader(spec.loader)
        spec.loader = loader
        module = importlib.util.module_from_spec(spec)
        sys.modules["lib.ops"] = module
        loader.exec_module(module)
        Patcher().add(AtomicPatch("lib.ops.g", 1)).apply(lazy=True)
        assert [r.status.value for r in p.report] == ["pending"]
        assert module.f() == "new"
        """,
        FILES,
    )


def test_sixteen_threads_that_import_at_once_see_no_half_state(run_python):
    run_python(
        """
        import sys, threading
        from patcher_core import AtomicPatch, Patcher
        Patcher().add(*[AtomicPatch(f"pkg.m{i}.f", lambda: "new") for i in range(16)]).apply(lazy=True)
        sys.setswitchinterval(1e-5)
        seen, start = [], threading.Barrier(16)
        def work(k):
            start.wait()
            for i in range(16):
                name = f"pkg.m{(i + k) % 16}"
                module = __import__(name, fromlist=["f"])
                seen.append(module.f())
        threads = [threading.Thread(target=work, args=(k,)) for k in range(16)]
        [t.start() for t in threads]
        [t.join(60) for t in threads]
        assert not any(t.is_alive() for t in threads), "deadlock"
        assert len(seen) == 256 and set(seen) == {"new"}
        """,
        {
            "pkg/__init__.py": "",
            **{f"pkg/m{i}.py": "import time\ndef f(): return 'old'\n" for i in range(16)},
        },
    )


def test_waiting_for_a_library_is_not_nothing_applied(run_python):
    """A program that has not imported the library yet is told so by its pending lines, not by a warning."""
    done = run_python(
        """
        from patcher_core import Patcher, SourceMatchPatch
        p = Patcher().add(SourceMatchPatch("lib.*", "*.m", matches={"0" * 16: "lib.ops.f"})).apply(lazy=True)
        assert [r.status.value for r in p.report] == ["pending"]
        """,
        FILES,
    )
    assert "nothing was applied" not in done.stderr


@pytest.fixture
def lazy_library(tmp_path, monkeypatch):
    """Gives back the name of a package that is not imported yet."""
    name = "lib_" + tmp_path.name.replace("-", "_")
    (tmp_path / f"{name}.py").write_text("def f(): return 'old'\ndef g(): return 'old'\nTABLE = {}\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield name
    sys.modules.pop(name, None)


def test_a_restore_while_a_module_is_being_patched_leaves_nothing(lazy_library):
    finders = list(sys.meta_path)

    def restores(original):
        patcher.restore()
        return lambda: "new"

    patcher = Patcher().add(
        AtomicPatch(f"{lazy_library}.f", target_wrapper=restores),
        AtomicPatch(f"{lazy_library}.g", lambda: "new"),
    )
    patcher.apply(lazy=True)
    library = importlib.import_module(lazy_library)
    assert (library.f(), library.g()) == ("old", "old")
    assert sys.meta_path == finders


def test_restores_in_another_thread_leave_nothing(tmp_path, monkeypatch):
    """Whichever comes first, the import or the restore: afterwards nothing is patched and no finder is left."""
    names = [f"raced_{number}" for number in range(40)]
    for name in names:
        (tmp_path / f"{name}.py").write_text("def f(): return 'old'\n")
    monkeypatch.syspath_prepend(tmp_path)
    finders = list(sys.meta_path)
    for name in names:
        patcher = Patcher().add(AtomicPatch(f"{name}.f", lambda: "new")).apply(lazy=True)
        importing = threading.Thread(target=importlib.import_module, args=(name,))
        importing.start()
        patcher.restore()
        importing.join()
        assert sys.modules.pop(name).f() == "old"
        assert sys.meta_path == finders


def test_a_strict_apply_that_fails_late_waits_for_nothing_any_more(lazy_library):
    class Step(EnvironmentStep):
        name = "late"

        @classmethod
        def run(cls, settings):
            raise OSError("no device")

    finders = list(sys.meta_path)
    configure_patcher_logging(on_fail="exception")
    try:
        with pytest.raises(PatchError, match="no device"):
            Patcher().add(Step, AtomicPatch(f"{lazy_library}.f", lambda: "new")).apply(lazy=True)
    finally:
        configure_patcher_logging(on_fail="warning")
    assert importlib.import_module(lazy_library).f() == "old"
    assert sys.meta_path == finders


def test_what_waited_before_a_strict_apply_failed_goes_on_waiting(lazy_library):
    patcher = Patcher().add(AtomicPatch(f"{lazy_library}.f", lambda: "new")).apply(lazy=True)
    configure_patcher_logging(on_fail="exception")
    try:
        with pytest.raises(PatchError, match="cannot be resolved"):
            patcher.add(AtomicPatch("json.dumps", "no_such_module_anywhere.f")).apply(lazy=True)
    finally:
        configure_patcher_logging(on_fail="warning")
    assert importlib.import_module(lazy_library).f() == "new"
    patcher.restore()


@pytest.mark.parametrize("key", ["a key", "1", "*", "a-b"])
def test_a_key_on_the_way_to_a_target_need_not_be_an_identifier(lazy_library, key):
    patcher = Patcher().add(AtomicPatch(f"{lazy_library}.TABLE.{key}.g", "new", create=True)).apply(lazy=True)
    importlib.import_module(lazy_library)
    (result,) = patcher.report
    assert result.status == "skipped", result
    patcher.restore()


SET_OF_TWO = {
    "made_set-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: made-set\nVersion: 1.0\n",
    "made_set-1.0.dist-info/entry_points.txt": """
        [patcher.patch_sets]
        left = made_set
        right = made_set
        absent = made_set
    """,
    "made_set.py": """
        from patcher_core import AtomicPatch, ModulePatch, Patch

        class Left(Patch):
            library = "left"

            @classmethod
            def patches(cls, options=None):
                return [AtomicPatch("left.f", lambda: "new")]

        class Right(Patch):
            library = "right"

            @classmethod
            def patches(cls, options=None):
                import right  # what a group may do: its library is here
                return [AtomicPatch("right.f", lambda: "new")]

        class Absent(Patch):
            library = "absent"

            @classmethod
            def patches(cls, options=None):
                import types
                return [ModulePatch("absent", lambda: types.ModuleType("absent"))]

        DEFAULT = ALL = CATALOG = [Left, Right, Absent]
    """,
    "left.py": "def f(): return 'old'",
    "right.py": "def f(): return 'old'",
}


def test_each_group_of_a_set_waits_for_its_own_library(run_python):
    run_python(
        """
        import sys
        from patcher_core import default_patcher
        default_patcher.apply(lazy=True)
        assert "made_set" not in sys.modules
        import left
        assert left.f() == "new" and "right" not in sys.modules
        assert {r.name: r.status.value for r in default_patcher.report} == {
            "left.f": "applied", "Right": "pending", "absent": "applied"
        }
        import right
        assert right.f() == "new"
        assert not default_patcher.report.pending
        default_patcher.restore()
        assert left.f() == right.f() == "old"
        """,
        SET_OF_TWO,
    )


def test_what_a_set_supplies_does_not_wait_for_the_library_that_is_absent(run_python):
    run_python(
        """
        from patcher_core import default_patcher
        default_patcher.apply(lazy=True)
        import left, absent
        """,
        SET_OF_TWO,
    )


def test_a_program_that_logs_nothing_does_not_pay_for_logging(run_python):
    done = run_python(
        """
        import sys
        from patcher_core import default_patcher, patcher_logger
        default_patcher.apply(lazy=True)
        import left
        assert left.f() == "new"
        print("logging" in sys.modules)
        patcher_logger.warning("something is said")
        print("logging" in sys.modules)
        """,
        SET_OF_TWO,
    )
    assert done.stdout.split() == ["False", "True"]
    assert "something is said" in done.stderr
