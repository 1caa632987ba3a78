"""Copies that others took of a replaced object."""

from __future__ import annotations

import logging

import patcher_core
from patcher_core import AtomicPatch, Patcher


def test_copies_are_rebound_listed_and_given_back(make_module):
    library = make_module("ref_lib", "def f(): return 'old'\ng = f\nclass C: pass")
    user = make_module("ref_user", "from ref_lib import f, f as renamed, C\nCONSTANT = 3")
    package = make_module("ref_package", "from ref_user import f")
    original, cls = library.f, library.C
    new_cls = type("New", (), {})
    patcher = (
        Patcher().add(AtomicPatch("ref_lib.f", lambda: "new"), AtomicPatch("ref_lib.C", new_cls)).apply()
    )
    assert user.f() == user.renamed() == package.f() == library.g() == "new"
    assert user.C is new_cls
    f_result, c_result = patcher.report
    assert set(f_result.rebound) == {"ref_lib.g", "ref_user.f", "ref_user.renamed", "ref_package.f"}
    assert c_result.rebound == ("ref_user.C",)
    patcher.restore()
    assert user.f is user.renamed is package.f is library.g is original and user.C is cls


def test_copies_taken_while_patched_are_given_back(make_module):
    library = make_module("ref_while", "def f(): return 'old'\ndef g(): return 'old'")
    f, g = library.f, library.g
    patcher = (
        Patcher()
        .add(
            AtomicPatch("ref_while.f", lambda: "new"),
            AtomicPatch("ref_while.g", lambda: "new", runtime_check=lambda: True),
        )
        .apply()
    )
    late = make_module("ref_late", "from ref_while import f, g as other")
    assert late.f() == late.other() == "new"
    patcher.restore()
    assert late.f is f and late.other is g


def test_a_replacement_with_a_home_of_its_own_keeps_its_importers(make_module):
    make_module("ref_target", "def slow(): return 'old'")
    fast = make_module("ref_fast", "def quick(): return 'new'")
    importer = make_module("ref_importer", "from ref_fast import quick")
    patcher = Patcher().add(AtomicPatch("ref_target.slow", "ref_fast.quick")).apply()
    late = make_module("ref_late_importer", "from ref_target import slow\nfrom ref_fast import quick")
    patcher.restore()
    assert importer.quick is late.quick is fast.quick
    assert late.slow() == "old"


def test_a_foreign_function_that_the_target_merely_re_exports_is_not_rebound(make_module):
    home = make_module("ref_home", "def f(): return 'old'")
    facade = make_module("ref_facade", "from ref_home import f")
    user = make_module("ref_facade_user", "from ref_home import f")
    Patcher().add(AtomicPatch("ref_facade.f", lambda: "new")).apply()
    assert facade.f() == "new" and home.f() == user.f() == "old"


def test_constants_are_never_rebound(make_module):
    make_module("ref_constants", "LIMIT = (1, 2)")
    user = make_module("ref_constants_user", "from ref_constants import LIMIT")
    Patcher().add(AtomicPatch("ref_constants.LIMIT", (3, 4))).apply()
    assert user.LIMIT == (1, 2)


def test_the_module_that_defines_the_replacement_keeps_its_fallback(make_module):
    library = make_module("ref_fallback_lib", "def f(): return 'old'")
    migration = make_module(
        "ref_migration",
        "from ref_fallback_lib import f as original_f\ndef fast(): return 'new ' + original_f()",
    )
    Patcher().add(AtomicPatch("ref_fallback_lib.f", migration.fast)).apply()
    assert library.f() == "new old"


def test_test_modules_and_kept_names_hold_the_original(make_module):
    make_module("ref_kept_lib", "def f(): return 'old'")
    test_module = make_module("test_something_of_mine", "from ref_kept_lib import f")
    holder = make_module("ref_holder", "from ref_kept_lib import f, f as reference")
    patcher_core.keep("ref_holder.reference")
    Patcher().add(AtomicPatch("ref_kept_lib.f", lambda: "new")).apply()
    assert test_module.f() == "old"
    assert holder.reference() == "old" and holder.f() == "new"


def test_rebind_can_be_switched_off(make_module):
    make_module("ref_off_lib", "def f(): return 'old'")
    user = make_module("ref_off_user", "from ref_off_lib import f")
    Patcher().add(AtomicPatch("ref_off_lib.f", lambda: "new", rebind=False)).apply()
    assert user.f() == "old"


def test_subclasses_that_keep_a_replaced_class_are_named(make_module, messages):
    make_module("ref_classes", "class Base: pass\nclass Derived(Base): pass")
    Patcher().add(AtomicPatch("ref_classes.Base", type("Base", (), {}))).apply()
    assert any("ref_classes.Derived" in text for text in messages(logging.WARNING))


def test_lazy_modules_are_not_woken(run_python):
    run_python(
        """
        import importlib.util, sys
        from patcher_core import AtomicPatch, Patcher
        import eager_lib
        spec = importlib.util.find_spec("lazy_user")
        loader = importlib.util.LazyLoader(spec.loader)
        spec.loader = loader
        module = importlib.util.module_from_spec(spec)
        sys.modules["lazy_user"] = module
        loader.exec_module(module)
        Patcher().add(AtomicPatch("eager_lib.f", lambda: "new")).apply()
        assert "WOKEN" not in sys.modules
        assert module.f() == "new" and "WOKEN" in sys.modules
        """,
        {
            "eager_lib.py": "def f(): return 'old'\n",
            "lazy_user.py": "import sys\nsys.modules['WOKEN'] = sys\nfrom eager_lib import f\n",
        },
    )
