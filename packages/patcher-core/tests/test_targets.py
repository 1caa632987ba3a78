"""What a dotted path means, and that looking at it runs nothing."""

from __future__ import annotations

import pytest

from patcher_core import AtomicPatch, Patcher, PatchStatus


def applied(*patches):
    patcher = Patcher().add(*patches).apply()
    return patcher, [result.status for result in patcher.report]


def reason_of(patch):
    (result,) = Patcher().add(patch).apply().report
    return result.status, result.reason


def test_a_key_of_a_dict_reached_by_attributes(make_module):
    registry = make_module(
        "tar_dict", "class R:\n    def __init__(self): self._module_dict = {'Conv': int}\nR = R()"
    ).R
    patcher, _ = applied(AtomicPatch("tar_dict.R._module_dict.Conv", str))
    assert registry._module_dict == {"Conv": str}
    patcher.restore()
    assert registry._module_dict == {"Conv": int}


def test_an_inherited_method_is_patched_on_the_named_class_only_and_deleted_again(make_module):
    library = make_module(
        "tar_inherit",
        "class A:\n    def m(self): return 'old'\n    @staticmethod\n    def s(): return 'old'\nclass B(A): pass",
    )
    patcher, _ = applied(
        AtomicPatch("tar_inherit.B.m", lambda self: "new"), AtomicPatch("tar_inherit.B.s", lambda: "new")
    )
    assert library.B().m() == library.B.s() == library.B().s() == "new"
    assert library.A().m() == library.A.s() == "old"
    patcher.restore()
    assert "m" not in vars(library.B) and "s" not in vars(library.B) and library.B().m() == "old"


def test_a_submodule_and_a_function_of_the_same_name(run_python):
    """``package.tool`` is the function that the package exports; ``package.tool.helper`` is in the module."""
    run_python(
        """
        import package
        from patcher_core import AtomicPatch, Patcher
        p = Patcher().add(AtomicPatch("package.tool", lambda: "new"),
                          AtomicPatch("package.tool.helper", lambda: "new helper")).apply()
        assert [r.status.value for r in p.report] == ["applied", "applied"]
        assert package.tool() == "new"
        from package.tool import helper
        assert helper() == "new helper"
        p.restore()
        assert package.tool() == "old helper"
        """,
        {
            "package/__init__.py": "from .tool import tool\n",
            "package/tool.py": "def helper(): return 'old helper'\ndef tool(): return helper()\n",
        },
    )


def test_a_class_of_the_name_of_a_submodule_that_is_not_imported_is_not_shadowed_by_an_import(run_python):
    run_python(
        """
        import sys, package
        from patcher_core import AtomicPatch, Patcher
        Patcher().add(AtomicPatch("package.Thing.go", lambda self: "new")).apply()
        assert package.Thing().go() == "new" and "package.Thing" not in sys.modules
        """,
        {
            "package/__init__.py": "class Thing:\n    def go(self): return 'old'\n",
            "package/Thing.py": "raise RuntimeError('imported for nothing')\n",
        },
    )


def test_properties_on_the_way_are_not_run(make_module):
    make_module(
        "tar_property",
        "class C:\n    @property\n    def p(self): raise SystemExit('ran the property')\nc = C()",
    )
    status, reason = reason_of(AtomicPatch("tar_property.c.p.x", 1))
    assert status is PatchStatus.FAILED and "property" in reason


def test_module_getattr_may_answer_for_a_target_that_the_user_named(make_module):
    library = make_module(
        "tar_lazy",
        "def __getattr__(name):\n    if name == 'Lazy': return 'old'\n    raise AttributeError(name)",
    )
    patcher, statuses = applied(AtomicPatch("tar_lazy.Lazy", "tar_lazy.__name__"))
    assert statuses == [PatchStatus.APPLIED] and library.Lazy == "tar_lazy"
    patcher.restore()
    assert "Lazy" not in vars(library) and library.Lazy == "old"


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("no_such_module_at_all.f", "module not found: no_such_module_at_all"),
        ("tar_absent.nothing", "target not found: tar_absent.nothing"),
        ("tar_absent.C.nothing", "target not found: tar_absent.C.nothing"),
        ("tar_absent.nothing.f", "target not found: tar_absent.nothing.f"),
    ],
)
def test_what_is_absent_is_skipped_with_a_reason(make_module, target, reason):
    make_module("tar_absent", "class C: pass")
    assert reason_of(AtomicPatch(target, 1)) == (PatchStatus.SKIPPED, reason)


def test_a_path_of_one_segment_fails(make_module):
    status, reason = reason_of(AtomicPatch("json", 1))
    assert status is PatchStatus.FAILED and "'json'" in reason and "module.name" in reason


def test_create_makes_a_name_that_upstream_lacks_and_undo_deletes_it(make_module):
    library = make_module("tar_create")
    patcher, _ = applied(AtomicPatch("tar_create.float", float, create=True))
    assert library.float is float
    patcher.restore()
    assert not hasattr(library, "float")


def test_aliases_are_all_attempted_and_never_created(make_module):
    library = make_module("tar_alias", "def f(): return 'old'\ng = f\nh = lambda: 'other'")
    patcher, _ = applied(
        AtomicPatch("tar_alias.f", lambda: "new", aliases=["tar_alias.gone", "tar_alias.g", "tar_alias.h"])
    )
    assert [(r.name, r.status.value, r.alias_of) for r in patcher.report] == [
        ("tar_alias.f", "applied", ""),
        ("tar_alias.gone", "skipped", "tar_alias.f"),
        ("tar_alias.g", "applied", "tar_alias.f"),
        ("tar_alias.h", "applied", "tar_alias.f"),
    ]
    assert library.f is library.g is library.h and not hasattr(library, "gone")
    patcher.restore()
    assert (library.f(), library.g(), library.h()) == ("old", "old", "other")


def test_aliases_of_one_object_share_one_dispatcher(make_module):
    library = make_module("tar_shared", "def f(): return 'old'\ng = f")
    applied(
        AtomicPatch(
            "tar_shared.f", lambda: "new", aliases=["tar_shared.g"], runtime_check=lambda: True, rebind=False
        )
    )
    assert library.f is library.g


def test_an_owner_that_does_not_keep_the_value_is_a_failure_and_left_as_it_was(make_module):
    library = make_module(
        "tar_stubborn",
        "class Meta(type):\n    def __setattr__(cls, name, value): pass\nclass C(metaclass=Meta):\n    x = 1",
    )
    status, reason = reason_of(AtomicPatch("tar_stubborn.C.x", 2))
    assert status is PatchStatus.FAILED and "tar_stubborn.C.x" in reason and library.C.x == 1


def test_a_string_replacement_that_does_not_resolve_is_a_failure(make_module):
    library = make_module("tar_string", "backend = 'nccl'")
    status, reason = reason_of(AtomicPatch("tar_string.backend", "no_such_thing.hccl"))
    assert status is PatchStatus.FAILED and "no_such_thing.hccl" in reason and library.backend == "nccl"


def test_a_subclass_of_the_patch_may_say_what_is_put_in(make_module):
    class Counted(AtomicPatch):
        @property
        def replacement(self):
            return lambda x: (self.given_replacement(x), "counted")

    library = make_module("tar_sub", "def f(x): return x")
    applied(Counted("tar_sub.f", lambda x: x + 1))
    assert library.f(1) == (2, "counted")


def test_value_puts_a_string_in_literally(make_module):
    from patcher_core import Value

    library = make_module("tar_value", "backend = 'nccl'")
    applied(AtomicPatch("tar_value.backend", Value("hccl")))
    assert library.backend == "hccl"


def test_patch_original_is_what_was_replaced(make_module):
    library = make_module(
        "tar_original", "def f(): return 'old'\nclass C:\n    @staticmethod\n    def s(): return 'old'"
    )
    f, s = library.f, library.C.s
    first, second = (
        AtomicPatch("tar_original.f", lambda: "new"),
        AtomicPatch("tar_original.C.s", lambda: "new"),
    )
    with Patcher().add(first, second):
        assert first.original is f and second.original is s
    assert first.original is None
