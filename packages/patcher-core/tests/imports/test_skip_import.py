"""Which modules a skip covers, what it leaves alone, and what it says."""

from __future__ import annotations

import pytest

REAL = {
    "real/__init__.py": "CONST = 1\n",
    "real/ops/__init__.py": "from . import good\nfrom .broken import Scatter\n",
    "real/ops/good.py": "X = 2\n",
    "real/ops/broken.py": "raise ImportError('cuda')\n",
}


def test_real_parents_and_siblings_run_for_real(run_controlled):
    run_controlled(
        """
        control.skip("real.ops.broken")
        from real import ops
        import real.ops.good
        from real.ops.broken import Other
        from real.ops.broken.deeper import Third
        assert real.CONST == 1 and ops.good.X == 2 and "stub" in repr(ops.Scatter)
        assert importlib.reload(real).CONST == 1
        import importlib.machinery
        assert type(real.__loader__) is importlib.machinery.SourceFileLoader
    """,
        REAL,
    )


def test_an_absent_parent_is_an_empty_package(run_controlled):
    run_controlled("""
        control.skip("ipdb.set_trace", "ghost.deep.er.Kernel")
        import ipdb, ghost.deep.er
        from ghost.deep import er
        from ipdb import set_trace
        assert "stub" in repr(set_trace) and "stub" in repr(ghost.deep.er.Kernel) and not ipdb.set_trace
        import ipdb.set_trace
        with raises(ImportError, "post_mortem"):
            from ipdb import post_mortem
        with raises(ModuleNotFoundError, "ghost.other"):
            import ghost.other
    """)


def test_namespace_packages_above_a_skipped_module_stay_real(run_controlled):
    run_controlled(
        """
        control.skip("projects.plugin.cuda", "projects.plugin.ops.fused.Kernel")
        from projects.plugin.cuda import anything
        from projects.plugin.ops.fused import Kernel, real_function
        import projects.plugin.ops.other
        assert projects.plugin.ops.other.X == 1 and real_function() == "real" and "stub" in repr(Kernel)
    """,
        {
            "projects/plugin/ops/other.py": "X = 1\n",
            "projects/plugin/ops/fused.py": "def real_function(): return 'real'\n",
        },
    )


def test_a_real_package_is_shadowed_and_not_run(run_controlled):
    run_controlled(
        """
        control.skip("broken")
        import broken.sub
        from broken import thing
    """,
        {"broken/__init__.py": "raise OSError('libcudart.so.11.0')\n"},
    )


def test_a_module_that_is_imported_already_is_reported_and_left_alone(run_controlled):
    run_controlled(
        """
        import real
        control.skip("real", "other")
        assert real.CONST == 1 and sys.modules["real"] is real
        late, other = control.outcomes
        assert (late.kind, late.name, late.status) == ("skipped", "real", "too late")
        assert "earlier" in late.reason
        assert (other.kind, other.name, other.status, other.reason) == ("skipped", "other", "active", "")
        assert len(records.warnings()) == 1 and "real" in records.warnings()[0]
        from real.ops.good import X
    """,
        {**REAL, "real/ops/__init__.py": ""},
    )


def test_an_import_blocked_with_none_is_reported(run_controlled):
    run_controlled("""
        sys.modules["blocked"] = None
        control.skip("blocked")
        assert control.outcomes[0].status == "too late" and "None" in control.outcomes[0].reason
    """)


def test_an_attribute_of_a_real_module_cannot_be_skipped_and_this_is_said(run_controlled):
    run_controlled(
        """
        control.skip("real.CONST")
        assert control.outcomes[0].status == "active"
        from real import CONST
        assert CONST == 1
        assert control.outcomes[0].status == "failed" and "AtomicPatch" in control.outcomes[0].reason
    """,
        REAL,
    )


def test_two_patchers_may_skip_the_same_module(run_controlled):
    run_controlled(
        """
        second = ImportControl()
        control.skip("real")
        second.skip("real")
        import real
        assert not real and second.outcomes[0].status == "active"
        control.restore()
        import real.deep
        assert not real and importlib.util.find_spec("real") is None
        second.restore()
        import real
        assert real.CONST == 1
    """,
        REAL,
    )


def test_the_more_specific_name_decides(run_controlled):
    run_controlled("""
        control.skip("ext")
        control.skip("ext.sharp", on_call="raise")
        control.replace("ext.solid", Thing=int)
        import ext.sharp
        from ext.solid import Thing
        def call(stub): return stub()
        assert Thing is int and call(ext.f) is None
        assert importlib.util.find_spec("ext.solid") is not None and importlib.util.find_spec("ext") is None
        with raises(SkippedModuleError):
            call(ext.sharp.f)
    """)


def test_skip_import_works_when_other_finders_stand_in_front(run_controlled):
    run_controlled("""
        class Other:
            asked = []
            def find_spec(self, name, path=None, target=None):
                self.asked.append(name)
        control.skip("ext")
        sys.meta_path.insert(0, Other())
        import ext.sub
        ours = next(each for each in sys.meta_path if type(each).__module__.startswith("patcher_core"))
        sys.meta_path.remove(ours)
        with raises(ModuleNotFoundError):
            import ext.other
        control.activate()
        import ext.other
        control.activate()
        assert sys.meta_path[0] is ours and sys.meta_path.count(ours) == 1
    """)


def test_nothing_is_left_on_the_meta_path_without_declarations(run_controlled):
    run_controlled("""
        before = list(sys.meta_path)
        control.skip("ext"); control.replace("ghost", X=1)
        assert len(sys.meta_path) == len(before) + 1
        control.restore()
        assert sys.meta_path == before
    """)


def test_skipping_triton_for_everybody_is_warned_about(run_controlled):
    run_controlled("""
        control.skip("triton")
        assert len(records.warnings()) == 1 and "only_for" in records.warnings()[0]
        ImportControl().skip("triton", only_for=("projects",))
        assert len(records.warnings()) == 1
    """)


def test_declarations_act_at_once_and_are_put_back_by_activate(run_controlled):
    run_controlled(
        """
        control.skip("real")
        import real
        control.restore(); control.restore()
        import real as again
        assert again.CONST == 1
        control.activate()
        assert control.outcomes[0].status == "too late"
        control.restore()
        del sys.modules["real"]
        control.activate(); control.activate()
        import real as third
        assert not third and control.outcomes[0].status == "active"
    """,
        REAL,
    )


def test_restore_removes_stubs_synthesised_parents_and_parent_attributes(run_controlled):
    run_controlled(
        """
        control.skip("real.ops.broken", "ghost.deep.er", "ext")
        import real.ops.broken.child, ghost.deep.er.child, ext.a.b
        control.restore()
        assert not [name for name in sys.modules if name.split(".")[0] in ("ghost", "ext")]
        assert "broken" not in vars(real.ops) and "real.ops.broken" not in sys.modules
        assert sys.modules["real.ops"] is real.ops
        with raises(ImportError, "cuda"):
            import real.ops.broken
        with raises(ModuleNotFoundError):
            import ghost
    """,
        {**REAL, "real/ops/__init__.py": ""},
    )


def test_restore_gives_a_parent_the_attribute_back_that_the_stub_displaced(run_controlled):
    run_controlled(
        """
        import pkg
        mine = pkg.fused
        control.skip("pkg.fused")
        import pkg.fused
        assert pkg.fused is not mine
        control.restore()
        assert pkg.fused is mine
    """,
        {"pkg/__init__.py": "fused = object()\n"},
    )


def test_restore_leaves_alone_what_somebody_else_put_there(run_controlled):
    run_controlled(
        """
        control.skip("pkg.fused", "ext")
        import pkg.fused, ext
        theirs = pkg.fused = types.ModuleType("pkg.fused")
        sys.modules["ext"] = theirs
        control.restore()
        assert pkg.fused is theirs and sys.modules["ext"] is theirs and "pkg.fused" not in sys.modules
    """,
        {"pkg/__init__.py": ""},
    )


def test_a_new_declaration_after_restore_does_not_bring_the_others_back(run_controlled):
    run_controlled(
        """
        control.skip("real"); control.replace("ghost", X=1); control.inject("os", "sep", "json")
        control.restore()
        assert [outcome.status for outcome in control.outcomes] == ["restored"] * 3
        control.skip("ext")
        import real, ext
        assert real.CONST == 1 and not ext
        assert [outcome.status for outcome in control.outcomes] == ["restored"] * 3 + ["active"]
        """,
        REAL,
    )


def test_a_finalizer_that_imports_while_a_declaration_is_made_does_not_hang(run_controlled):
    run_controlled(
        """
        import gc
        class Importing:
            def __init__(self): self.me = self
            def __del__(self):
                importlib.import_module(f"ext.sub{id(self)}").attribute
        control.skip("ext")
        gc.set_threshold(1, 1, 1)
        for number in range(200):
            Importing()
            control.skip(f"ext.other{number}")
            getattr(importlib.import_module("ext"), f"name{number}").attribute
        control.restore()
        """
    )


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_worker_processes_skip_too_and_take_stubs_as_arguments(run_controlled, method):
    done = run_controlled(
        f"""
        control.skip("ext", "ghost.mod.Kernel")
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor
        import ext, worker
        if __name__ == "__main__":
            context = multiprocessing.get_context("{method}")
            with ProcessPoolExecutor(2, mp_context=context) as pool:
                assert list(pool.map(worker.use, [ext.A.B, ext.C])) == [("ext.A.B", None), ("ext.C", None)]
            print("done")
        """,
        {
            "worker.py": """
            from ext import op
            from ghost.mod import Kernel
            def use(stub):
                return f"{stub.__module__}.{stub.__qualname__}", op(1)
            """
        },
    )
    assert done.stdout.splitlines() == ["done"]


def test_an_import_that_is_under_way_misses_no_finder_when_ours_leaves(run_controlled):
    run_controlled(
        """
        class Meanwhile:
            def find_spec(self, name, path=None, target=None):
                step()
        sys.meta_path.insert(len(sys.meta_path) - 1, Meanwhile())
        control.skip("ext")
        step = control.restore
        import one
        control.activate()
        sys.meta_path.insert(0, sys.meta_path.pop(-2))
        step = control.activate
        import two
        """,
        {"one.py": "", "two.py": ""},
    )
