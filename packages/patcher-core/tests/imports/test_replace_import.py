"""replace_import: stand-in modules."""

from __future__ import annotations

FILES = {
    "pkg/__init__.py": "",
    "pkg/fast.py": "Thing = 'real'\n",
    "new_ops.py": "__all__ = ['a']\n'''Docs.'''\na, b, _c = 1, 2, 3\n",
    "new_pkg/__init__.py": "top = 1\n",
    "new_pkg/nn/__init__.py": "layer = 2\n",
    "new_pkg/nn/functional.py": "f = 3\nimport new_pkg\n",
}


def test_the_stand_in_has_the_base_and_the_overrides_on_top(run_controlled):
    run_controlled(
        """
        control.replace("pkg.fast", "new_ops", b="override", extra=int)
        control.replace("pkg.by_object", replace_with.module("new_ops", a=5), exports={"b": 6})
        control.replace("pkg.by_keyword", base_module="new_ops", exports={"b": 7}, extra=8)
        control.replace("pkg.nothing", replace_with.module(x=1))
        control.replace("pkg.empty")
        from pkg.fast import a, b, _c, extra
        assert (a, b, _c, extra) == (1, "override", 3, int)
        import pkg.by_object as o, pkg.by_keyword as k, pkg.nothing, pkg.empty, new_ops
        assert (o.a, o.b, k.a, k.b, k.extra, pkg.nothing.x) == (5, 6, 1, 7, 8, 1)
        assert (new_ops.a, new_ops.b) == (1, 2) and not hasattr(new_ops, "extra")
        assert pkg.fast.__all__ == ["a", "b", "extra"] and new_ops.__all__ == ["a"]
    """,
        FILES,
    )


def test_the_stand_in_has_an_identity_of_its_own(run_controlled):
    run_controlled(
        """
        import new_ops
        control.replace("pkg.fast", new_ops)
        control.replace("single", X=1)
        import pkg.fast, pkg.fast as stand_in, single
        assert sys.modules["pkg.fast"] is pkg.fast is stand_in is not new_ops
        for module, name, package in ((stand_in, "pkg.fast", "pkg"), (single, "single", "")):
            assert module.__name__ == module.__spec__.name == name
            assert module.__package__ == module.__spec__.parent == package
            assert module.__loader__ is module.__spec__.loader and not hasattr(module, "__file__")
        assert new_ops.__name__ == new_ops.__spec__.name == "new_ops"
    """,
        FILES,
    )


def test_the_stand_in_is_a_snapshot_taken_at_import(run_controlled):
    run_controlled(
        """
        control.replace("old", "new_ops")
        assert "new_ops" not in sys.modules
        import new_ops
        new_ops.a = "before"
        import old
        new_ops.a = "after"
        new_ops.late = 1
        assert old.a == "before" and not hasattr(old, "late")
    """,
        FILES,
    )


def test_registering_imports_nothing(run_controlled):
    run_controlled(
        """
        before = set(sys.modules)
        control.replace("pkg.fast", "new_ops")
        control.replace("ghost.deep.leaf", "no_such_module")
        assert set(sys.modules) == before
    """,
        FILES,
    )


def test_a_base_that_cannot_be_imported_is_named_where_the_name_is_imported(run_controlled):
    run_controlled(
        """
        control.replace("old", "broken")
        with raises(ImportError, "old", "broken", "missing_dep"):
            import old
        assert "old" not in sys.modules
    """,
        {"broken.py": "import missing_dep\n"},
    )


def test_submodules_of_a_base_package_can_be_imported_below_the_stand_in(run_controlled):
    run_controlled(
        """
        control.replace("apex", "new_pkg", exports={"extra": 1})
        import apex.nn.functional as f
        from apex.nn import layer
        from apex import nn, top, extra
        assert (f.f, layer, top, extra, nn.__name__) == (3, 2, 1, 1, "apex.nn")
        with raises(ModuleNotFoundError, "apex.optim"):
            import apex.optim
    """,
        FILES,
    )


def test_a_replaced_package_can_have_replaced_and_skipped_children(run_controlled):
    run_controlled("""
        control.replace("old", X=1)
        control.replace("old.sub.leaf", Y=2)
        control.skip("old.cuda")
        import old.cuda
        from old.sub.leaf import Y
        assert (old.X, Y) == (1, 2) and not old.cuda
    """)


def test_real_and_namespace_parents_run_for_real(run_controlled):
    run_controlled(
        """
        control.replace("projects.plugin.ops.agg", exports={"Fn": int})
        control.replace("pkg.fast", Thing=int)
        import projects.plugin.ops.other, pkg.fast
        from projects.plugin.ops.agg import Fn
        assert Fn is int and projects.plugin.ops.other.X == 1 and pkg.fast.Thing is int
        assert pkg.__file__.endswith("__init__.py")
    """,
        {
            **FILES,
            "projects/plugin/ops/agg.py": "raise ImportError('cuda')\n",
            "projects/plugin/ops/other.py": "X = 1\n",
        },
    )


def test_absent_parents_are_synthesised_and_removed_again(run_controlled):
    run_controlled(
        """
        import pkg
        control.replace("pkg.fast", Thing=int)
        control.replace("pkg.ghost.leaf", Thing=int)
        control.replace("ghost.deep.leaf", Thing=int)
        from pkg.fast import Thing
        from ghost.deep.leaf import Thing as second
        from pkg.ghost.leaf import Thing as third
        assert Thing is second is third is int
        control.restore()
        assert not [name for name in sys.modules if name.startswith(("ghost", "pkg."))]
        assert not {"fast", "ghost"} & set(vars(pkg))
        from pkg.fast import Thing
        assert Thing == "real"
        with raises(ModuleNotFoundError):
            import ghost.deep.leaf
    """,
        FILES,
    )


def test_a_synthesised_parent_stays_while_another_patcher_needs_it(run_controlled):
    run_controlled("""
        second = ImportControl()
        control.replace("ghost.deep.one", X=1)
        second.replace("ghost.deep.two", X=2)
        import ghost.deep.one, ghost.deep.two
        parent = ghost.deep
        control.restore()
        assert sys.modules["ghost.deep"] is parent and parent.two.X == 2 and not hasattr(parent, "one")
        second.restore()
        assert not [name for name in sys.modules if name.startswith("ghost")]
    """)


def test_a_module_that_is_imported_already_is_reported_and_left_alone(run_controlled):
    run_controlled(
        """
        import pkg.fast
        control.replace("pkg.fast", Thing=int)
        assert pkg.fast.Thing == "real" and control.outcomes[0].status == "too late"
        (warning,) = records.warnings()
        assert "pkg.fast" in warning and "earlier" in warning
    """,
        FILES,
    )


def test_activate_puts_replacements_back(run_controlled):
    run_controlled(
        """
        control.replace("pkg.fast", Thing=int)
        for _ in range(2):
            from pkg.fast import Thing
            assert Thing is int
            control.restore()
            control.activate()
        from pkg.fast import Thing
        assert Thing is int and control.outcomes[0].status == "active"
    """,
        FILES,
    )


def test_a_lazy_base_answers_for_what_it_has_not_loaded(run_controlled):
    run_controlled(
        """
        control.replace("old", "lazy", eager=2)
        control.replace("old2", "lazy_class")
        from old import deferred, eager
        from old2 import deferred as second
        assert (deferred, eager, second) == ("computed deferred", 2, "computed deferred")
        with raises(ImportError, "absent"):
            from old import absent
    """,
        {
            "lazy.py": """
              def __getattr__(name):
                  if name != "deferred":
                      raise AttributeError(name)
                  return "computed " + name
              """,
            "lazy_class.py": """
              import sys, types
              class Lazy(types.ModuleType):
                  def __getattr__(self, name):
                      if name != "deferred":
                          raise AttributeError(name)
                      return "computed " + name
              lazy = Lazy(__name__)
              lazy.__spec__ = __spec__
              sys.modules[__name__] = lazy
              """,
        },
    )


def test_a_stand_in_can_be_reloaded(run_controlled):
    run_controlled(
        """
        control.replace("old", "new_ops", extra=1)
        import old, new_ops
        new_ops.a = "changed"
        assert importlib.reload(old) is old and old.a == "changed" and old.extra == 1
    """,
        FILES,
    )


def test_what_is_declared_below_a_stand_in_wins_over_submodules_of_its_base(run_controlled):
    run_controlled(
        """
        import new_pkg.nn.functional
        control.replace("apex", "new_pkg")
        control.replace("apex.nn", marker=1)
        control.skip("apex.optim")
        from apex import nn, optim
        assert nn.marker == 1 and not optim
        """,
        {**FILES, "new_pkg/optim.py": "real = True\n"},
    )


def test_restore_gives_a_parent_the_attribute_back_that_the_stand_in_displaced(run_controlled):
    run_controlled(
        """
        import displaced
        mine = displaced.fast
        control.replace("displaced.fast", Thing=int)
        for _ in range(2):
            import displaced.fast
            assert displaced.fast.Thing is int
            del sys.modules["displaced.fast"]
        control.restore()
        assert displaced.fast is mine
        """,
        {"displaced/__init__.py": "fast = object()\n"},
    )
