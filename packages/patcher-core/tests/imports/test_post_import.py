"""Callbacks after the import of a module: when they run, and that they leave no trace."""

from __future__ import annotations

import sys

import pytest

FILES = {
    "lib.py": "def f(): return 'old'\n",
    "user.py": "from lib import f\n",
    "pkg/__init__.py": "from . import inner\nfrom .inner import g\n",
    "pkg/inner.py": "def g(): return 'old'\n",
    "pkg/data.txt": "data",
    "pkg/models/llama/modeling_llama.py": "x = 1\n",
    "pkg/models/qwen/modeling_qwen.py": "x = 2\n",
    "pkg/models/qwen/configuration_qwen.py": "x = 3\n",
}
SEEN = """
        seen = []
        def see(module):
            seen.append(module.__name__)
"""


def test_the_callback_runs_after_the_module_and_before_its_importer_sees_it(run_controlled):
    run_controlled(
        """
        def patch(module):
            assert module is sys.modules["lib"] and module.f() == "old"
            module.f = lambda: "new"
        subscribe("lib", patch)
        assert "lib" not in sys.modules
        import user
        assert user.f() == "new"
        """,
        FILES,
    )


def test_a_submodule_imported_by_its_package(run_controlled):
    run_controlled(
        """
        subscribe("pkg.inner", lambda module: setattr(module, "g", lambda: "new"))
        from pkg import g
        assert g() == "new"
        """,
        FILES,
    )


def test_the_callback_runs_again_at_a_reload(run_controlled):
    run_controlled(
        """
        subscribe("lib", lambda module: setattr(module, "f", lambda: "new"))
        import lib
        for _ in range(2):
            assert importlib.reload(lib) is lib and lib.f() == "new"
            assert type(lib.__loader__) is type(lib.__spec__.loader) is importlib.machinery.SourceFileLoader
        """,
        FILES,
    )


def test_the_module_has_its_real_loader_while_it_runs_and_afterwards(run_controlled):
    run_controlled(
        """
        subscribe("lib", lambda module: None)
        import lib
        assert lib.during == (importlib.machinery.SourceFileLoader,) * 2
        assert type(lib.__loader__) is importlib.machinery.SourceFileLoader
        assert lib.__loader__ is lib.__spec__.loader
        assert pickle.loads(pickle.dumps(lib.__loader__)).path == lib.__file__
        import inspect
        assert inspect.getsource(lib).startswith("during") and lib.__cached__
        """,
        {"lib.py": "during = (type(__loader__), type(__spec__.loader))\n"},
    )


def test_package_data(run_controlled):
    run_controlled(
        """
        import pkgutil
        subscribe("pkg", lambda module: None)
        import pkg
        assert pkgutil.get_data("pkg", "data.txt") == b"data"
        if sys.version_info >= (3, 9):
            from importlib import resources
            assert resources.files("pkg").joinpath("data.txt").read_text() == "data"
        """,
        FILES,
    )


def test_a_spec_that_is_only_looked_at_answers_like_the_real_one(run_controlled):
    run_controlled(
        """
        import runpy
        subscribe("lib", lambda module: seen.append(module))
        seen = []
        spec = importlib.util.find_spec("lib")
        assert isinstance(spec.loader, importlib.machinery.SourceFileLoader)
        assert spec.loader.get_source("lib").startswith("def f") and spec.loader.path == spec.origin
        assert runpy.run_module("lib")["f"]() == "old" and seen == []
        """,
        FILES,
    )


def test_modules_in_a_zip_archive(run_controlled):
    run_controlled(
        """
        import zipfile, zipimport
        with zipfile.ZipFile("archive.zip", "w") as archive:
            archive.writestr("zipped/__init__.py", "during = type(__loader__)")
            archive.writestr("zipped/mod.py", "def f(): return 'old'")
        sys.path.insert(0, "archive.zip")
        subscribe("zipped.mod", lambda module: setattr(module, "f", lambda: "new"))
        subscribe("zipped", lambda module: setattr(module, "patched", True))
        from zipped.mod import f
        import zipped
        assert f() == "new" and zipped.patched and zipped.during is zipimport.zipimporter
        assert type(zipped.__spec__.loader) is type(zipped.mod.__loader__) is zipimport.zipimporter
        """
    )


def test_a_lazy_loader_notifies_when_the_module_is_woken(run_controlled):
    run_controlled(
        """
        subscribe("lib", lambda module: (seen.append(module.__name__), setattr(module, "f", lambda: "new")))
        seen = []
        spec = importlib.util.find_spec("lib")
        loader = spec.loader = importlib.util.LazyLoader(spec.loader)
        module = sys.modules["lib"] = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
        assert seen == []
        assert module.f() == "new" and seen == ["lib"]
        import lib
        assert lib is module
        assert type(lib.__loader__) is type(lib.__spec__.loader) is importlib.machinery.SourceFileLoader
        """,
        FILES,
    )


def test_a_finder_that_makes_every_import_lazy(run_controlled):
    run_controlled(
        """
        class LazyFinder:
            def find_spec(self, name, path=None, target=None):
                spec = importlib.machinery.PathFinder.find_spec(name, path, target)
                if spec is not None and name == "lib":
                    spec.loader = importlib.util.LazyLoader(spec.loader)
                return spec
        sys.meta_path.insert(0, LazyFinder())
        seen = []
        subscribe("lib", lambda module: (seen.append(1), setattr(module, "f", lambda: "new")))
        import lib
        assert seen == [] and lib.f() == "new" and seen == [1]
        """,
        FILES,
    )


def test_extension_modules_and_built_in_modules(run_controlled):
    run_controlled(
        SEEN
        + """
        names = {}
        for name in ("_queue", "_lsprof", "_crypt", "_curses", "mmap", "xxsubtype", "_symtable"):
            sys.modules.pop(name, None)
            spec = importlib.util.find_spec(name)
            if spec is not None:
                names[name] = spec.loader if isinstance(spec.loader, type) else type(spec.loader)
        assert importlib.machinery.BuiltinImporter in names.values()
        for name, loader in names.items():
            subscribe(name, see)
            module = importlib.import_module(name)
            found = module.__spec__.loader
            assert (found if isinstance(found, type) else type(found)) is loader, name
        assert seen == list(names)
        """
    )


def test_namespace_packages(run_controlled):
    run_controlled(
        SEEN
        + """
        import pkg_ns.plain
        plain = type(pkg_ns.plain.__loader__)
        subscribe("pkg_ns.watched", see)
        import pkg_ns.watched.mod
        watched = pkg_ns.watched
        for _ in range(2):
            assert watched.mod.X == 1 and type(watched.__loader__) is plain, type(watched.__loader__)
            assert type(watched.__spec__.loader) is type(pkg_ns.plain.__spec__.loader)
            assert list(watched.__path__) and getattr(watched, "__file__", None) is None
            importlib.reload(watched); importlib.reload(pkg_ns.plain)
        assert seen == ["pkg_ns.watched"] * 3
        """,
        {"pkg_ns/watched/mod.py": "X = 1\n", "pkg_ns/plain/mod.py": ""},
    )


def test_a_module_that_puts_another_object_in_its_place(run_controlled):
    run_controlled(
        """
        got = []
        subscribe("lib", got.append)
        import lib
        assert got == [lib] and type(lib).__name__ == "Lazy" and lib.__spec__.name == "lib"
        """,
        {
            "lib.py": """
            import sys, types
            class Lazy(types.ModuleType): pass
            sys.modules[__name__] = Lazy(__name__)
            sys.modules[__name__].__spec__ = __spec__
            """
        },
    )


def test_a_failed_import_is_not_announced_and_a_later_one_is(run_controlled):
    run_controlled(
        SEEN
        + """
        subscribe("lib", see)
        for _ in range(2):
            with raises(ValueError, "not yet"):
                import lib
            assert "lib" not in sys.modules
        os.environ["READY"] = "1"
        import lib
        assert seen == ["lib"]
        """,
        {"lib.py": "import os\nif 'READY' not in os.environ:\n    raise ValueError('not yet')\n"},
    )


def test_an_absent_module_stays_absent(run_controlled):
    run_controlled(
        """
        subscribe("no_such_module", print)
        subscribe("pkg.no_such_module", print)
        with raises(ModuleNotFoundError, "No module named 'no_such_module'"):
            import no_such_module
        with raises(ModuleNotFoundError, "No module named 'pkg.no_such_module'"):
            import pkg.no_such_module
        assert importlib.util.find_spec("no_such_module") is None
        """,
        FILES,
    )


def test_patterns(run_controlled):
    run_controlled(
        SEEN
        + """
        subscription = subscribe("pkg.models.*.modeling_*", see)
        import pkg.models.qwen.configuration_qwen, pkg.models.qwen.modeling_qwen
        assert seen == ["pkg.models.qwen.modeling_qwen"]
        subscription.cancel()
        import pkg.models.llama.modeling_llama
        assert len(seen) == 1
        """,
        FILES,
    )


def test_several_subscriptions_run_in_order_until_cancelled(run_controlled):
    run_controlled(
        """
        seen = []
        before = list(sys.meta_path)
        first = subscribe("lib", lambda module: (seen.append(1), first.cancel()))
        second = subscribe("lib", lambda module: seen.append(2))
        third = subscribe("lib", lambda module: seen.append(3))
        import lib
        importlib.reload(lib)
        third.cancel(); third.cancel()
        importlib.reload(lib)
        assert seen == [1, 2, 3, 2, 3, 2]
        second.cancel()
        assert sys.meta_path == before
        """,
        FILES,
    )


def test_an_exception_of_the_callback_reaches_the_importer(run_controlled):
    run_controlled(
        """
        subscription = subscribe("lib", lambda module: 1 / 0)
        with raises(ZeroDivisionError):
            import lib
        assert "lib" not in sys.modules
        subscription.cancel()
        import lib
        """,
        FILES,
    )


def test_the_import_of_an_unrelated_module_costs_one_call(run_controlled):
    run_controlled(
        """
        subscribe("lib", print); subscribe("pkg.models.*", print)
        control.skip("ext"); control.replace("ghost.deep", X=1)
        calls = []
        def count(frame, event, argument):
            if event == "call" and "patcher_core" in frame.f_code.co_filename:
                calls.append(frame.f_code.co_name)
        sys.setprofile(count)
        import unrelated
        import libother
        sys.setprofile(None)
        assert calls == ["find_spec"] * 2, calls
        """,
        {"unrelated.py": "", "libother.py": ""},
    )


def test_a_finder_that_searches_the_whole_meta_path_again(run_controlled):
    run_controlled(
        SEEN
        + """
        class Hook:
            active = False
            def find_spec(self, name, path=None, target=None):
                if self.active or name != "lib":
                    return None
                self.active = True
                try:
                    return importlib.util.find_spec(name)
                finally:
                    self.active = False
        sys.meta_path.insert(0, Hook())
        subscribe("lib", see)
        sys.meta_path.insert(1, Hook())
        import lib
        assert seen == ["lib"] and type(lib.__loader__) is importlib.machinery.SourceFileLoader
        """,
        FILES,
    )


def test_a_finder_behind_ours_such_as_that_of_an_editable_install(run_controlled):
    run_controlled(
        SEEN
        + """
        class EditableFinder:
            @classmethod
            def find_spec(cls, name, path=None, target=None):
                if name == "editable":
                    return importlib.util.spec_from_file_location(name, "elsewhere/code.py")
        sys.meta_path.append(EditableFinder)
        subscribe("editable", see)
        import editable
        assert seen == ["editable"] and editable.X == 1
        """,
        {"elsewhere/code.py": "X = 1\n"},
    )


def test_a_finder_that_hands_out_the_same_spec_again(run_controlled):
    run_controlled(
        SEEN
        + """
        spec = importlib.util.spec_from_file_location("kept", "lib.py")
        class Keeping:
            def find_spec(self, name, path=None, target=None):
                return spec if name == "kept" else None
        sys.meta_path.append(Keeping())
        subscribe("kept", see)
        assert importlib.util.find_spec("kept") is importlib.util.find_spec("kept") is spec
        import kept
        assert seen == ["kept"] and type(kept.__loader__) is importlib.machinery.SourceFileLoader
        """,
        FILES,
    )


@pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="CPython 3.12 asks no finder that only has find_module"
)
def test_a_finder_without_find_spec(run_controlled):
    run_controlled(
        SEEN
        + """
        import warnings
        class Loader:
            def load_module(self, name):
                module = sys.modules[name] = types.ModuleType(name)
                module.__loader__ = self
                return module
        class OldFinder:
            def find_module(self, name, path=None):
                return Loader() if name == "old_style" else None
        sys.meta_path.insert(0, OldFinder())
        subscribe("old_style", see)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ImportWarning)
            import old_style
        assert seen == ["old_style"] and type(old_style.__loader__) is Loader
        """
    )


def test_a_replaced_module_is_announced_and_a_skipped_one_is_not(run_controlled):
    run_controlled(
        SEEN
        + """
        subscribe("ghost.replaced", see); subscribe("ghost.skipped", see)
        control.replace("ghost.replaced", X=1)
        control.skip("ghost.skipped")
        import ghost.replaced, ghost.skipped
        assert seen == ["ghost.replaced"] and ghost.replaced.X == 1
        """
    )


def test_sixteen_threads_import_at_the_same_time(run_controlled):
    run_controlled(
        """
        import threading
        seen = []
        def patch(module):
            seen.append(module.__name__)
            module.f = "new"
        for number in range(8):
            subscribe(f"pack.mod{number}", patch)
        control.skip("ext")
        barrier, errors = threading.Barrier(16), []
        def work(index):
            try:
                barrier.wait()
                for number in range(8):
                    name = f"pack.mod{(number + index) % 8}"
                    assert importlib.import_module(name).f == "new", name
                    importlib.import_module(f"ext.sub{number}.deep")
                    importlib.import_module(f"other{(number + index) % 8}")
                    subscribe(f"pack.never{index}", print).cancel()
            except BaseException as error:
                errors.append(error)
        threads = [threading.Thread(target=work, args=(index,)) for index in range(16)]
        for thread in threads: thread.start()
        for thread in threads: thread.join(60)
        assert not errors and not any(thread.is_alive() for thread in threads), errors
        assert sorted(seen) == [f"pack.mod{number}" for number in range(8)]
        """,
        {
            "pack/__init__.py": "",
            **{f"pack/mod{n}.py": "import time\nf = 'old'\ntime.sleep(0.01)\n" for n in range(8)},
            **{f"other{n}.py": "import time\ntime.sleep(0.01)\n" for n in range(8)},
        },
    )


def test_a_callback_that_another_one_cancels_does_not_run(run_controlled):
    run_controlled(
        """
        seen = []
        subscribe("lib", lambda module: second.cancel())
        second = subscribe("lib", seen.append)
        import lib
        assert seen == []
        """,
        FILES,
    )
