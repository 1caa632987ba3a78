"""Libraries that choose a backend by probing must not choose a stub."""

from __future__ import annotations

INSTALLED = {
    "real_ext/__init__.py": "X = 1\n",
    "real_ext/sub.py": "",
    "real_ext-1.2.dist-info/METADATA": "Metadata-Version: 2.1\nName: real-ext\nVersion: 1.2\n",
    "library.py": """
        import functools, importlib.util
        from importlib.util import find_spec
        from importlib.util import find_spec as renamed
        PROBES = {"find": find_spec}
        class Probing:
            probe = staticmethod(find_spec)
        bound = functools.partial(find_spec, "real_ext")
        def default(name, probe=find_spec):
            return probe(name)
        def answers():
            yield from (find_spec("real_ext"), renamed("real_ext"), PROBES["find"]("real_ext"))
            yield from (default("real_ext"), importlib.util.find_spec("real_ext"))
            yield from (Probing.probe("real_ext"), bound())
        """,
}


def test_find_spec_is_none_before_and_after_the_stub_is_imported(run_controlled):
    run_controlled(
        """
        import library
        before = importlib.util.find_spec
        assert None not in list(library.answers())
        control.skip("real_ext")
        for _ in range(2):
            assert set(library.answers()) == {None}
            assert importlib.util.find_spec("real_ext.sub") is None
            assert importlib.util.find_spec(".sub", "real_ext") is None
            import real_ext.sub
        from importlib.util import find_spec as taken_while_skipped
        control.restore()
        assert None not in list(library.answers()) and taken_while_skipped("real_ext") is not None
        assert importlib.util.find_spec is before is taken_while_skipped
    """,
        INSTALLED,
    )


def test_probing_imports_nothing(run_controlled):
    run_controlled("""
        control.skip("ext", "ghost.deep")
        assert importlib.util.find_spec("ext") is importlib.util.find_spec("ext.sub") is None
        assert importlib.util.find_spec("ghost.deep") is None
        assert not [name for name in sys.modules if name.startswith(("ext", "ghost"))]
    """)


def test_find_spec_answers_as_ever_for_everything_else(run_controlled):
    run_controlled(
        """
        control.skip("ext", "real_ext.sub", "ghost.deep.er")
        assert importlib.util.find_spec("real_ext").origin.endswith("__init__.py")
        assert importlib.util.find_spec("json.decoder").name == "json.decoder"
        assert importlib.util.find_spec(".decoder", "json").name == "json.decoder"
        assert importlib.util.find_spec("no_such_module") is None
        with raises(ModuleNotFoundError):
            importlib.util.find_spec("no_such_module.child")
        with raises((ImportError, ValueError)):
            importlib.util.find_spec(".relative")
        import ghost.deep.er
        assert importlib.util.find_spec("ghost") is importlib.util.find_spec("ghost.deep") is None
        import inspect
        assert list(inspect.signature(importlib.util.find_spec).parameters) == ["name", "package"]
    """,
        INSTALLED,
    )


def test_a_replaced_module_is_there_for_probes(run_controlled):
    run_controlled("""
        control.replace("ghost.deep", X=1)
        control.skip("ghost.other")
        assert None not in (importlib.util.find_spec("ghost.deep"), importlib.util.find_spec("ghost"))
        assert importlib.util.find_spec("ghost.other") is None
        import ghost.deep
        assert None not in (importlib.util.find_spec("ghost.deep"), importlib.util.find_spec("ghost"))
    """)


def test_importlib_metadata_finds_no_distribution(run_controlled):
    run_controlled(
        """
        from importlib import metadata
        from importlib.metadata import version, PackageNotFoundError
        names = ("real_ext", "real-ext", "Real_Ext")
        assert [version(name) for name in names] == ["1.2"] * 3
        control.skip("real_ext", "json.no_distribution")
        for _ in range(2):
            for name in names:
                for probe in (version, metadata.distribution, metadata.metadata, metadata.requires):
                    with raises(PackageNotFoundError, name):
                        probe(name)
            import real_ext
        assert version("packaging") and list(metadata.distributions(name="packaging"))
        assert any(each.metadata["Name"] == "packaging" for each in metadata.distributions())
        with raises(PackageNotFoundError):
            version("no_such_distribution")
        control.restore()
        assert version("real_ext") == "1.2"
    """,
        INSTALLED,
    )


def test_a_copy_of_version_is_answered_without_metadata_having_been_loaded_before(run_controlled):
    run_controlled(
        """
        assert "importlib.metadata" not in sys.modules
        control.skip("real_ext")
        assert "importlib.metadata" not in sys.modules
        from importlib.metadata import version, PackageNotFoundError
        with raises(PackageNotFoundError):
            version("real_ext")
    """,
        INSTALLED,
    )


def test_a_find_spec_that_was_replaced_by_a_closure_still_knows_what_is_skipped(run_controlled):
    run_controlled(
        """
        original = importlib.util.find_spec
        calls = []
        def find_spec(name, package=None):
            calls.append(name)
            return original(name, package)
        importlib.util.find_spec = find_spec
        control.skip("real_ext")
        assert importlib.util.find_spec("real_ext") is None and importlib.util.find_spec("json") is not None
        control.restore()
        assert importlib.util.find_spec is find_spec and importlib.util.find_spec("real_ext") is not None
        assert calls == ["json", "real_ext"]
    """,
        INSTALLED,
    )


def test_a_find_spec_that_is_no_function_is_reported(run_controlled):
    run_controlled("""
        import functools
        importlib.util.find_spec = functools.partial(importlib.util.find_spec)
        control.skip("ext")
        assert any("find_spec" in line for line in records.warnings()), records.lines
    """)


def test_version_pins_find_a_skipped_library_absent(run_controlled):
    run_controlled(
        """
        from patcher_core.distributions import find_distribution
        second = ImportControl()
        control.skip("real_ext"); second.skip("real_ext", "json.tool")
        assert find_distribution("real-ext") is None
        control.restore(); control.restore()
        assert find_distribution("real-ext") is None
        second.restore()
        assert find_distribution("real-ext").version == "1.2"
        second.skip("real_ext", only_for=("projects",))
        assert find_distribution("real-ext").version == "1.2"
        """,
        INSTALLED,
    )


def test_probes_without_a_python_caller_and_from_many_threads(run_controlled):
    run_controlled(
        """
        import _thread, threading, time
        done = []
        def probing():
            for _ in range(300):
                done.append(importlib.util.find_spec("json") is not None)
        def declaring(number):
            for _ in range(50):
                mine = ImportControl()
                mine.skip(f"ext{number}")
                mine.skip("late", only_for=("projects",))
                assert importlib.util.find_spec(f"ext{number}") is None
                mine.restore()
        before = importlib.util.find_spec.__code__, importlib.import_module.__code__
        errors = []
        def guarded(function, *arguments):
            try:
                function(*arguments)
            except BaseException as error:
                errors.append(error)
        threads = [threading.Thread(target=guarded, args=(declaring, number)) for number in range(4)]
        threads += [threading.Thread(target=guarded, args=(probing,)) for _ in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        assert not errors and all(done) and len(done) == 4 * 300, errors
        assert (importlib.util.find_spec.__code__, importlib.import_module.__code__) == before
        control.skip("ext")
        sys.unraisablehook = errors.append
        started_before = _thread._count()
        _thread.start_new_thread(importlib.util.find_spec, ("json",))
        while _thread._count() > started_before:
            time.sleep(0.001)
        assert not errors, errors
        """
    )
