"""The 1.0 API: the builder, priorities, the constructor of a patcher with module patches, predefined functions."""

from __future__ import annotations

import logging

import pytest

from patcher_core import AtomicPatch, Patch, Patcher, PatcherBuilder, PatchStatus
from patcher_core.legacy import legacy_functions


@pytest.fixture
def library(make_module):
    return make_module("bld_lib", "CALLS = []\ndef f(): return '.'\ndef index(x): return x")


def recorder(mark, error=None):
    def patch(module, options):
        module.CALLS.append(mark)
        if error is not None:
            raise error

    patch.__name__ = mark
    return patch


def test_functions_run_by_module_in_the_order_of_first_addition_smaller_priority_first(library, make_module):
    other = make_module("bld_other", "CALLS = []")
    library.CALLS = other.CALLS
    builder = PatcherBuilder()
    builder.add_module_patch("bld_lib", Patch(recorder("late"), priority=5), Patch(recorder("first")))
    builder.add_module_patch("bld_other", Patch(recorder("other"), priority=-9))
    builder.add_module_patch("bld_lib", Patch(recorder("second")))
    builder.build().apply()
    assert other.CALLS == ["first", "second", "late", "other"]


def test_the_built_patcher_is_a_context_manager_that_restores(library):
    def patch(module, options):
        module.f = lambda: options["mark"]

    builder = PatcherBuilder().add_module_patch("bld_lib", Patch(patch, {"mark": "new"}))
    with builder.build() as patcher:
        assert patcher.is_applied and library.f() == "new"
    assert library.f() == "."


def test_building_or_entering_twice_applies_once_also_for_functions_that_wrap(library):
    def wrap(module, options):
        before = module.f
        module.f = lambda: "+" + before()

    wrapper = Patch(wrap)
    builder = PatcherBuilder().add_module_patch("bld_lib", wrapper)
    first, second = builder.build(), builder.build()
    with first, second, first:
        assert library.f() == "+." and wrapper.is_applied
    assert library.f() == "." and not wrapper.is_applied


def test_disable_patches_and_the_blacklist_take_function_names(library):
    patches = {"bld_lib": [Patch(recorder("a")), Patch(recorder("b"))]}
    Patcher(patches, {"a"}).apply()
    assert library.CALLS == ["b"]
    builder = PatcherBuilder().add_module_patch("bld_lib", *patches["bld_lib"]).disable_patches("b")
    builder.build().apply()
    assert library.CALLS == ["b", "a"]


def test_a_failing_function_warns_unless_told_not_to_and_the_others_go_on(library, messages):
    patches = [
        Patch(recorder("loud", ValueError("out of luck")), priority=0),
        Patch(recorder("quiet", ValueError("quiet luck")), priority=1, patch_failure_warning=False),
        Patch(recorder("fine"), priority=2),
    ]
    patcher = PatcherBuilder().add_module_patch("bld_lib", *patches).build().apply()
    assert library.CALLS == ["loud", "quiet", "fine"]
    warnings = "\n".join(messages(logging.WARNING))
    assert "out of luck" in warnings and "quiet luck" not in warnings
    assert "quiet luck" in str([result.reason for result in patcher.report])


class Predefined(Patch):
    legacy_name = "index"

    @classmethod
    def patches(cls, options=None):
        return [AtomicPatch("bld_lib.index", lambda x: ("new", options))]


def test_a_predefined_function_stands_for_its_group(library):
    index = legacy_functions([Predefined])["index"]
    assert index.__name__ == "index"
    patcher = PatcherBuilder().add_module_patch("bld_lib", Patch(index, {"a": 1})).build().apply()
    assert library.index(1) == ("new", {"a": 1})
    (result,) = patcher.report
    assert (result.status, result.name, result.group) == (PatchStatus.APPLIED, "bld_lib.index", "Predefined")


def test_a_users_function_of_the_same_name_is_the_users(library):
    def index(module, options):
        module.index = lambda x: "mine"

    PatcherBuilder().add_module_patch("bld_lib", Patch(index)).build().apply()
    assert library.index(1) == "mine"


def test_a_predefined_function_can_be_called(library):
    index = legacy_functions([Predefined])["index"]
    (result,) = index(library, {"b": 2})
    assert result.status is PatchStatus.APPLIED and library.index(1) == ("new", {"b": 2})


def test_wrong_arguments_are_named_and_add_nothing(library):
    builder = PatcherBuilder()
    with pytest.raises(TypeError, match="module_name"):
        builder.add_module_patch(None, Patch(recorder("x")))
    with pytest.raises(TypeError, match=r"Patch\(func"):
        builder.add_module_patch("bld_lib", Patch(recorder("x")), recorder("y"))
    with pytest.raises(TypeError, match="disable_patches"):
        builder.disable_patches(3)
    with pytest.raises(TypeError, match=r"Patch\(func"):
        Patcher({"bld_lib": [recorder("z")]})
    builder.build().apply()
    assert library.CALLS == []
