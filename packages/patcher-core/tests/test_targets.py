"""What a dotted path means, and that looking at it runs nothing."""

from __future__ import annotations

import sys

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


KEPT_BY_CODE = """
class Settings:
    stored = 1

    @property
    def limit(self):
        return self.stored

    @limit.setter
    def limit(self, value):
        self.stored = value

settings = Settings()

def f(x=1): return x
"""


@pytest.mark.parametrize("target", ["kept.settings.limit", "kept.f.__defaults__"])
def test_what_is_kept_by_code_of_its_own_is_refused_and_stays_as_it_was(make_module, target):
    library = make_module("kept", KEPT_BY_CODE)
    patcher = Patcher().add(AtomicPatch(target, (7,))).apply()
    (result,) = patcher.report.results
    assert result.status is PatchStatus.FAILED and "cannot be replaced" in result.reason
    patcher.restore()
    assert library.settings.limit == 1 and library.f() == 1


def test_a_setting_of_a_module_with_properties_is_refused_and_stays_as_it_was(make_module):
    source = """
    import sys, types
    class Backend(types.ModuleType):
        stored = 1
        @property
        def enabled(self): return self.stored
        @enabled.setter
        def enabled(self, value): self.stored = value
    sys.modules[__name__] = Backend(__name__)
    """
    make_module("kept_backend", source, __name__="kept_backend")
    backend = sys.modules["kept_backend"]
    patcher = Patcher().add(AtomicPatch("kept_backend.enabled", 5)).apply()
    assert patcher.report.results[0].status is PatchStatus.FAILED
    patcher.restore()
    assert backend.enabled == 1


@pytest.mark.parametrize("kind", ["", "@classmethod", "@staticmethod"])
def test_a_method_of_one_instance_is_replaced_and_wrapped_as_it_is_called(make_module, kind):
    first = "" if kind == "@staticmethod" else "self, "
    source = f"class C:\n    {kind}\n    def m({first}x): return 'old', x\none, other = C(), C()"
    library = make_module("one_instance", source)
    new = {"replacement": lambda x: ("new", x)}
    wrapper = {"target_wrapper": lambda original: lambda x: ("wrapped", *original(x))}
    checked = {**new, "runtime_check": lambda x: x > 2}
    for how, small, large in (
        (new, ("new", 1), ("new", 3)),
        (wrapper, ("wrapped", "old", 1), ("wrapped", "old", 3)),
        (checked, ("old", 1), ("new", 3)),
    ):
        with Patcher().add(AtomicPatch("one_instance.one.m", **how)):
            assert library.one.m(1) == small and library.one.m(3) == large
            assert library.other.m(1) == ("old", 1)
        assert "m" not in vars(library.one)
