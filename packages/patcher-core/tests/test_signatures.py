"""Will upstream's callers still fit the replacement?"""

from __future__ import annotations

import logging

import pytest

from patcher_core import AtomicPatch, Patcher

FITS = [
    ("x, y=1", "x, y=1"),
    ("x, y=1", "*args, **kwargs"),
    ("x, y=1", "x, *args, **kwargs"),
    ("x, y=1", "x, y=1, z=2"),
    ("x, *, y=1", "x, **kwargs"),
    ("x, /", "anything, /"),
    ("*, key", "*, key=None"),
    ("*args, **kwargs", "x"),
]
MISFITS = [
    ("x, y=1", "x, **kwargs", "'y' is not taken by position"),
    ("q, k, unsqueeze_dim=1", "q, k, position_ids", "position_ids"),
    ("hidden, past_key_values=None", "hidden, past_key_value=None", "past_key_values"),
    ("x, y", "y, x", "moved"),
    ("x, y", "x", "'y'"),
    ("x", "x, *, key", "'key' is required"),
    ("x, **kwargs", "x", "**kwargs"),
    ("x, *rest", "x", "*rest"),
    ("x, *, mask=None", "x", "'mask'"),
    ("x, y=1", "x, y", "'y' is required"),
]


def function(make_module, name, parameters):
    return make_module(name, f"def f({parameters}): return None").f


@pytest.mark.parametrize(("old", "new"), FITS)
def test_a_replacement_that_fits_is_not_complained_about(make_module, messages, old, new):
    function(make_module, "sig_old", old)
    Patcher().add(AtomicPatch("sig_old.f", function(make_module, "sig_new", new))).apply()
    assert messages(logging.WARNING) == []


@pytest.mark.parametrize(("old", "new", "named"), MISFITS)
def test_a_replacement_that_does_not_fit_is_applied_with_a_warning_that_names_parameters(
    make_module, messages, old, new, named
):
    function(make_module, "sig_old", old)
    patcher = Patcher().add(AtomicPatch("sig_old.f", function(make_module, "sig_new", new))).apply()
    assert len(patcher.report.applied) == 1
    (warning,) = messages(logging.WARNING)
    assert "sig_old.f" in warning and named in warning


def test_self_may_have_any_name(make_module, messages):
    make_module("sig_class", "class C:\n    def m(self, x): pass\n    @classmethod\n    def k(cls, x): pass")
    Patcher().add(
        AtomicPatch("sig_class.C.m", lambda module, x: None),
        AtomicPatch("sig_class.C.k", lambda kind, x: None),
    ).apply()
    assert messages(logging.WARNING) == []


def test_the_first_parameter_of_a_staticmethod_counts(make_module, messages):
    make_module("sig_static", "class C:\n    @staticmethod\n    def s(x): pass")
    Patcher().add(AtomicPatch("sig_static.C.s", lambda value: None)).apply()
    assert "'x'" in messages(logging.WARNING)[0]


def test_classes_are_compared_by_what_constructs_them(make_module, messages):
    make_module("sig_ctor", "class C:\n    def __init__(self, a, b=1): pass")

    class New:
        def __init__(self, a):
            pass

    Patcher().add(AtomicPatch("sig_ctor.C", New)).apply()
    assert "'b'" in messages(logging.WARNING)[0]


def test_a_runtime_check_that_can_never_answer_is_named(make_module, messages):
    make_module("sig_check", "def f(x, y): return 'old'")
    Patcher().add(AtomicPatch("sig_check.f", lambda x, y: "new", runtime_check=lambda x: True)).apply()
    assert any("runtime_check" in text and "'y'" in text for text in messages(logging.WARNING))
