"""skip_import(only_for=...): stubs that only some packages see."""

from __future__ import annotations

FILES = {
    "projects/__init__.py": "",
    "projects/model.py": """
        import importlib, importlib.util
        import ext.language as tl
        import ext
        from ext.ops import fused
        from ext import jit
        @jit
        def kernel(x: tl.constexpr): ...
        def later():
            import ext.late
            return ext.late
        by_name = importlib.import_module("ext.runtime")
        spec = importlib.util.find_spec("ext")
        """,
    "other.py": """
        import importlib, importlib.util
        def probe():
            try:
                import ext
            except ImportError:
                ext = None
            return ext, importlib.util.find_spec("ext")
        """,
}
REAL_EXT = {"ext/__init__.py": "def jit(f): return 'real'\n", "ext/language.py": "constexpr = 'real'\n"}

CHECK_MODEL = """
        import projects.model as model
        assert model.kernel.__name__ == "kernel" and not model.ext and not model.later() and not model.by_name
        assert model.spec is None and "stub" in repr(model.fused) and model.tl is model.ext.language
"""


def test_other_importers_find_the_module_absent_where_it_is_absent(run_controlled):
    run_controlled(
        """
        control.skip("ext", only_for=("projects",))
        import other
        assert other.probe() == (None, None)
"""
        + CHECK_MODEL
        + """
        assert other.probe() == (None, None)
        assert not [name for name in sys.modules if name.split(".")[0] == "ext"]
        with raises(ModuleNotFoundError):
            importlib.import_module("ext")
    """,
        FILES,
    )


def test_other_importers_see_the_real_module_where_there_is_one(run_controlled):
    run_controlled(
        """
        import other
        control.skip("ext", only_for=("projects", "elsewhere"))
        real, spec = other.probe()
        assert real.jit(1) == "real" and spec is not None
"""
        + CHECK_MODEL
        + """
        assert other.probe()[0] is real is sys.modules["ext"]
    """,
        {**FILES, **REAL_EXT},
    )


def test_a_module_that_others_imported_earlier_is_no_obstacle(run_controlled):
    run_controlled(
        """
        import ext.language
        control.skip("ext", only_for=("projects",))
        assert control.outcomes[0].status == "active"
"""
        + CHECK_MODEL
        + """
        assert ext.language.constexpr == "real" and vars(ext)["language"].constexpr == "real"
    """,
        {**FILES, **REAL_EXT},
    )


def test_the_main_module_is_in_the_package_it_is_run_from(run_controlled):
    run_controlled(
        """
        control.skip("ext", only_for=("tools",))
        import ext.sub
        assert not ext and "ext" not in sys.modules
    """,
        {"tools/__init__.py": ""},
        main="tools/train.py",
        arguments=("-m", "tools.train"),
    )


def test_a_package_whose_name_merely_begins_alike_is_not_meant(run_controlled):
    run_controlled(
        """
        control.skip("ext", only_for=("projects",))
        with raises(ModuleNotFoundError):
            import projects_extra
    """,
        {"projects_extra.py": "import ext\n"},
    )


def test_a_relative_import_of_a_skipped_sibling(run_controlled):
    run_controlled(
        """
        control.skip("projects.cuda", only_for=("projects",))
        import projects.user as user
        assert all("stub" in repr(value) for value in (user.f, user.g, user.cuda)) and user.helper.Y == 1
        with raises(ImportError, "no gpu"):
            import projects.cuda
    """,
        {
            "projects/__init__.py": "",
            "projects/helper.py": "Y = 1\n",
            "projects/cuda.py": "raise ImportError('no gpu')\n",
            "projects/user.py": "from .cuda import f\nfrom . import cuda, helper\nfrom .cuda.deep import g\n",
        },
    )


def test_a_skipped_child_of_a_real_package(run_controlled):
    run_controlled(
        """
        control.skip("lib.ops", "lib.deep.fused", only_for=("projects",))
        import projects.user as user
        assert "stub" in repr(user.memory) and user.lib.VERSION == 3 and "stub" in repr(user.lib.ops)
        assert "stub" in repr(user.o) and "stub" in repr(user.lib.deep.fused)
        assert user.nn.Z == 4 and user.lib.deep.W == 5
        assert "stub" in repr(user.fused) and "stub" in repr(user.by_attribute)
        import lib.ops
        assert lib.ops.real
        assert isinstance(user.lib, types.ModuleType)
        assert user.lib.__name__ == "lib" and user.lib.__file__ == lib.__file__
    """,
        {
            "projects/__init__.py": "",
            "lib/__init__.py": "VERSION = 3\n",
            "lib/ops.py": "real = True\n",
            "lib/nn.py": "Z = 4\n",
            "lib/deep/__init__.py": "W = 5\n",
            "projects/user.py": """
              import lib.ops
              import lib.deep.fused
              from lib.ops import memory
              from lib import ops as o, nn
              from lib.deep import fused
              import lib.deep.fused as by_attribute
              """,
        },
    )


def test_a_skipped_child_of_an_absent_package(run_controlled):
    run_controlled(
        """
        control.skip("ghost.ops", only_for=("projects",))
        import projects.user as user
        assert "stub" in repr(user.ops) and "stub" in repr(user.ghost.ops.f)
        with raises(ModuleNotFoundError):
            import ghost
    """,
        {"projects/__init__.py": "", "projects/user.py": "from ghost import ops\nimport ghost.ops\n"},
    )


def test_metadata_answers_by_importer(run_controlled):
    run_controlled(
        """
        control.skip("ext", only_for=("projects",))
        import other, projects.user
        assert other.found() == "2.0" and projects.user.found() is None
    """,
        {
            "projects/__init__.py": "",
            "ext-2.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: ext\nVersion: 2.0\n",
            **dict.fromkeys(
                ("projects/user.py", "other.py"),
                """
              from importlib.metadata import version, PackageNotFoundError
              def found():
                  try:
                      return version("ext")
                  except PackageNotFoundError:
                      return None
              """,
            ),
        },
    )


def test_restore_leaves_the_import_statement_as_it_was(run_controlled):
    run_controlled(
        """
        import builtins
        functions = importlib.import_module, importlib.util.find_spec
        before = builtins.__import__, [function.__code__ for function in functions]
        control.skip("ext", only_for=("projects",))
        second = ImportControl()
        second.skip("ext2", only_for=("projects",))
        control.restore()
        assert builtins.__import__ is not before[0]
        second.restore()
        assert (builtins.__import__, [function.__code__ for function in functions]) == before
        with raises(ModuleNotFoundError):
            import projects.model
        control.activate()
        import projects.model
    """,
        FILES,
    )


def test_somebody_elses_import_hook_around_ours_survives_restore(run_controlled):
    run_controlled(
        """
        import builtins
        original = builtins.__import__
        control.skip("ext", only_for=("projects",))
        ours, seen = builtins.__import__, []
        def theirs(name, *args, **kwargs):
            seen.append(name)
            return ours(name, *args, **kwargs)
        builtins.__import__ = theirs
        control.restore()
        import json
        assert builtins.__import__ is theirs and "json" in seen
        control.activate()
        import projects.model
        assert not projects.model.ext
    """,
        FILES,
    )


def test_import_calls_of_every_form_still_work(run_controlled):
    run_controlled(
        """
        control.skip("ext", only_for=("projects", "__main__"))
        assert __import__("os.path").__name__ == "os" and __import__("json", None).__name__ == "json"
        assert __import__("json", globals=5, fromlist=None).__name__ == "json"
        assert not __import__("ext", globals(), locals(), ["f"], 0)
        assert not __import__(name="ext.sub", globals=globals())
        with raises(TypeError):
            __import__(3, globals())
        import warnings
        warnings.simplefilter("ignore", ImportWarning)
        with raises((ImportError, ValueError)):
            from ...far import away
        scope = {"__name__": "projects.made"}
        exec("from .helper import Y\\nfrom ext import f\\nimport ext", scope)
        assert scope["Y"] == 1 and not scope["ext"] and not scope["f"]
        exec("from .helper import Y", {"__name__": "projects", "__path__": []})
        """,
        {"projects/__init__.py": "", "projects/helper.py": "Y = 1\n"},
    )
