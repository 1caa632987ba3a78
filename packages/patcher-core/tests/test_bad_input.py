"""Wrong calls: a clear error that names the argument, and nothing half done."""

from __future__ import annotations

from types import ModuleType

import pytest

import patcher_core
from patcher_core import AtomicPatch, LegacyPatch, Patch, Patcher, RegistryPatch, patcher_logger

MALFORMED = ["", ".", "a..b", ".a", "a.", " a.b", "a. b"]


def nothing(*args):
    return None


@pytest.mark.parametrize("path", MALFORMED)
def test_malformed_paths(path):
    with pytest.raises(ValueError, match="target="):
        AtomicPatch(path, nothing)
    with pytest.raises(ValueError, match="aliases="):
        AtomicPatch("a.b", nothing, aliases=["a.c", path])
    with pytest.raises(ValueError, match="replacement="):
        AtomicPatch("a.b", path)
    with pytest.raises(ValueError, match="registry="):
        RegistryPatch(path, int)
    if path:
        with pytest.raises(ValueError, match="target_module="):
            LegacyPatch(nothing, target_module=path)
        with pytest.raises(ValueError, match="keep"):
            patcher_core.keep("good.name", "a..b")


@pytest.mark.parametrize("wrong", [None, 3, b"a.b", ["a.b"]])
def test_paths_of_a_wrong_type(wrong):
    with pytest.raises(TypeError, match="target"):
        AtomicPatch(wrong, nothing)
    with pytest.raises(TypeError, match="registry"):
        RegistryPatch(wrong, int)


@pytest.mark.parametrize("argument", ["precheck", "runtime_check", "replacement_wrapper", "target_wrapper"])
def test_hooks_must_be_callable(argument):
    with pytest.raises(TypeError, match=argument):
        AtomicPatch("a.b", nothing, **{argument: "yes"})


def test_atomic_patch_needs_something_to_put_in():
    with pytest.raises(ValueError, match=r"'a\.b'.*replacement or a target_wrapper"):
        AtomicPatch("a.b")
    with pytest.raises(ValueError, match="replacement_wrapper needs a replacement"):
        AtomicPatch("a.b", target_wrapper=nothing, replacement_wrapper=nothing)


def test_both_replacement_and_target_wrapper_the_replacement_wins_and_a_warning_says_so(
    make_module, messages
):
    library = make_module("bad_both", "def f(): return 'old'")
    Patcher().add(AtomicPatch("bad_both.f", lambda: "new", target_wrapper=lambda f: None)).apply()
    assert library.f() == "new" and any("target_wrapper" in text for text in messages(30))


def test_registry_patch_arguments():
    with pytest.raises(ValueError, match="module_cls or module_factory"):
        RegistryPatch("a.R")
    with pytest.raises(ValueError, match="needs a name"):
        RegistryPatch("a.R", module_factory=nothing)
    with pytest.raises(TypeError, match="module_cls"):
        RegistryPatch("a.R", nothing)
    with pytest.raises(TypeError, match="name"):
        RegistryPatch("a.R", int, name=3)


def test_legacy_patch_arguments():
    with pytest.raises(ValueError, match="target_module"):
        LegacyPatch(nothing)
    with pytest.raises(TypeError, match="func"):
        LegacyPatch("f", target_module="a")


class Good(Patch):
    @classmethod
    def patches(cls, options=None):
        return [AtomicPatch("bad_lib.f", lambda: "new")]


@pytest.mark.parametrize("wrong", [None, 3, "mmcv", nothing, int, Patch, [Good]])
def test_add_refuses_what_is_no_patch_and_adds_nothing(make_module, wrong):
    library = make_module("bad_lib", "def f(): return 'old'")
    patcher = Patcher()
    with pytest.raises(TypeError, match=r"add\(\) takes"):
        patcher.add(Good, wrong)
    patcher.apply()
    assert library.f() == "old"


def a_set(**names):
    module = ModuleType("some_patches")
    vars(module).update(names)
    return module


@pytest.mark.parametrize(
    ("what", "instead"),
    [
        (a_set(ALL=[]), "write add(*some_patches.ALL)"),
        ([AtomicPatch("math.sin", len)], "write add(*patches)"),
        (len, "wrap a function as LegacyPatch(func, target_module=...)"),
    ],
)
def test_what_is_no_patch_is_refused_with_what_to_write_instead(what, instead):
    with pytest.raises(TypeError) as refused:
        Patcher().add(what)
    assert str(refused.value).endswith("; " + instead)


@pytest.mark.parametrize("what", [None, "some_patches", int, a_set()])
def test_no_advice_is_given_that_does_not_help(what):
    with pytest.raises(TypeError) as refused:
        Patcher().add(what)
    assert str(refused.value) == f"add() takes Patch classes and patches, got {what!r}"


def test_add_and_groups_refuse_options_that_are_no_mapping():
    with pytest.raises(TypeError, match="options"):
        Patcher().add(Good, options=["a"])
    with pytest.raises(TypeError, match="options"):
        Good(["a"])


@pytest.mark.parametrize("wrong", [3, None, ["x"]])
def test_disable_refuses_what_is_no_name(wrong):
    with pytest.raises(TypeError, match="disable"):
        Patcher().disable("fine", wrong)


def test_a_group_that_lists_something_else_fails_alone(make_module):
    library = make_module("bad_lib", "def f(): return 'old'")

    class Bad(Patch):
        @classmethod
        def patches(cls, options=None):
            return ["mmcv.ops.nms"]

    class NotWritten(Patch):
        pass

    patcher = Patcher().add(Bad, NotWritten, Good).apply()
    assert library.f() == "new"
    assert [result.status.value for result in patcher.report] == ["failed", "failed", "applied"]
    assert (
        "mmcv.ops.nms" in patcher.report.failed[0].reason and "NotWritten" in patcher.report.failed[1].reason
    )


def test_a_wrapper_that_forgets_to_return_is_a_failure_that_says_so(make_module):
    library = make_module("bad_wrapper", "def f(): return 'old'")
    (result,) = Patcher().add(AtomicPatch("bad_wrapper.f", target_wrapper=nothing)).apply().report
    assert result.status.value == "failed" and "returned None" in result.reason and library.f() == "old"


def test_a_precheck_with_unknown_parameters_is_a_failure_that_names_them(make_module):
    make_module("bad_precheck", "def f(): return 'old'")
    (result,) = (
        Patcher().add(AtomicPatch("bad_precheck.f", nothing, precheck=lambda version: True)).apply().report
    )
    assert result.status.value == "failed" and "version" in result.reason and "target" in result.reason


def test_logging_options():
    with pytest.raises(ValueError, match=r"on_fail='explode'.*warning"):
        patcher_core.configure_patcher_logging(on_apply="debug", on_fail="explode")
    assert patcher_logger.action("on_apply").value == "info"
    with pytest.raises(ValueError, match="'LOUD'"):
        patcher_core.set_patcher_log_level("LOUD")
    with pytest.raises(TypeError, match="level"):
        patcher_core.set_patcher_log_level(None)
    with pytest.raises(ValueError, match="rank"):
        patcher_logger.set_rank(-1)
    with pytest.raises(TypeError, match="rank"):
        patcher_logger.set_rank("0")


def test_register_backend_arguments():
    with pytest.raises(ValueError, match="identifier"):
        patcher_core.register_backend("my chip", lambda: "")
    with pytest.raises(TypeError, match="callable"):
        patcher_core.register_backend("chip", None)


def test_unknown_names_of_the_package_are_attribute_errors():
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = patcher_core.no_such_name
    assert set(patcher_core.__all__) <= set(dir(patcher_core))
    for name in patcher_core.__all__:
        assert getattr(patcher_core, name) is not None
