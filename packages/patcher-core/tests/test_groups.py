"""Named groups of patches: options, composition, disabling, conflicts, backends, strict mode."""

from __future__ import annotations

import logging

import pytest

import patcher_core
from patcher_core import AtomicPatch, Patch, Patcher, PatchError, PatchStatus, RegistryPatch


@pytest.fixture
def library(make_module):
    return make_module("grp_lib", "def f(): return 'old'\ndef g(): return 'old'\ndef h(): return 'old'")


class GroupF(Patch):
    legacy_name = "group_f"

    @classmethod
    def patches(cls, options=None):
        value = (options or {}).get("value", "new")
        return [AtomicPatch("grp_lib.f", lambda: value)]


class GroupG(Patch):
    name = "group_g"

    @classmethod
    def patches(cls, options=None):
        return [AtomicPatch("grp_lib.g", lambda: "new")]


class Both(Patch):
    @classmethod
    def patches(cls, options=None):
        return [*GroupF.patches(options), GroupG]


def test_the_name_defaults_to_the_class_name():
    assert (GroupF.name, GroupG.name, Both.name) == ("GroupF", "group_g", "Both")


def test_options_reach_the_group(library):
    Patcher().add(GroupF, options={"value": 7}).apply()
    assert library.f() == 7


class GroupH(Patch):
    option_names = ("value",)

    @classmethod
    def patches(cls, options=None):
        return [AtomicPatch("grp_lib.h", lambda: options["value"])]


def test_an_option_that_no_group_takes_is_refused_before_anything_is_added(library):
    patcher = Patcher()
    with pytest.raises(ValueError, match=r"takes the option 'vlaue'; taken are: backend, value\."):
        patcher.add(AtomicPatch("grp_lib.f", lambda: "new"), GroupH, options={"vlaue": 7})
    patcher.add(GroupH, options={"value": 7, "backend": "portable"}).apply()
    assert (library.f(), library.h()) == ("old", 7)


def test_a_group_of_ones_own_that_names_no_options_may_read_any(library):
    Patcher().add(GroupH, GroupF, options={"value": 7, "colour": "red"}).apply()
    assert library.f() == library.h() == 7


def test_options_without_a_group_to_take_them_are_refused():
    with pytest.raises(ValueError, match=r"takes the option 'value'; taken are: backend\."):
        Patcher().add(AtomicPatch("grp_lib.f", lambda: "new"), options={"value": 7})


def test_an_instance_brings_its_own_options(library):
    Patcher().add(GroupF({"value": 8})).apply()
    assert library.f() == 8


def test_groups_compose(library):
    patcher = Patcher().add(Both).apply()
    assert library.f() == library.g() == "new"
    assert [(result.group, result.name) for result in patcher.report] == [
        ("Both", "grp_lib.f"),
        ("group_g", "grp_lib.g"),
    ]


@pytest.mark.parametrize("disabled", ["GroupF", "group_f", GroupF, "grp_lib.f"])
def test_disable_takes_names_legacy_names_classes_and_targets(library, disabled):
    Patcher().add(GroupF, GroupG).disable(disabled).apply()
    assert (library.f(), library.g()) == ("old", "new")


def test_a_member_of_a_composite_can_be_disabled(library):
    Patcher().add(Both).disable("group_g").apply()
    assert (library.f(), library.g()) == ("new", "old")


def test_disabling_something_unknown_is_said_with_the_nearest_name(library, messages):
    Patcher().add(GroupG).disable("group_h").apply()
    assert any("'group_h'" in text and "'group_g'" in text for text in messages(logging.WARNING))


def test_a_group_added_twice_is_applied_once(library):
    patcher = Patcher().add(GroupF).add(GroupF).apply()
    assert len(patcher.report) == 1


def test_conflicting_groups_raise_with_the_line_that_solves_it(library, messages):
    class Rival(Patch):
        conflicts_with = (GroupF,)

        @classmethod
        def patches(cls, options=None):
            return [AtomicPatch("grp_lib.f", lambda: "rival")]

    patcher = Patcher().add(GroupF, Rival)
    assert any("patcher.disable('Rival')" in text for text in messages(logging.WARNING))
    with pytest.raises(ValueError, match=r"patcher\.disable\('GroupF'\)"):
        patcher.apply()
    assert library.f() == "old"
    patcher.disable(Rival).apply()
    assert library.f() == "new"


def test_a_group_in_another_group_conflicts_as_well_and_nothing_is_left_half_done(library):
    class Composite(Patch):
        @classmethod
        def patches(cls, options=None):
            return [GroupF]

    class Early(Patch):
        apply_before_collect = True

        @classmethod
        def patches(cls, options=None):
            return [AtomicPatch("grp_lib.early", "early", create=True)]

    class Rival(Patch):
        conflicts_with = (GroupF,)

        @classmethod
        def patches(cls, options=None):
            return [AtomicPatch("grp_lib.f", lambda: "rival")]

    patcher = Patcher().add(Early, Composite, Rival)
    with pytest.raises(ValueError, match=r"patcher\.disable\('GroupF'\)"):
        patcher.apply()
    assert library.f() == "old"
    assert not hasattr(library, "early")
    assert not patcher.is_applied
    patcher.disable("GroupF").apply()
    assert library.f() == "rival"


def test_a_member_that_is_not_for_this_machine_conflicts_with_nothing(library):
    class Elsewhere(Patch):
        backends = ("original",)

        @classmethod
        def patches(cls, options=None):
            raise AssertionError("not asked")

    class Composite(Patch):
        @classmethod
        def patches(cls, options=None):
            return [Elsewhere]

    class Rival(Patch):
        conflicts_with = (Elsewhere,)

        @classmethod
        def patches(cls, options=None):
            return [AtomicPatch("grp_lib.f", lambda: "rival")]

    Patcher().add(Composite, Rival).apply()
    assert library.f() == "rival"


def test_apply_before_collect_runs_before_other_groups_are_asked(library):
    order = []

    class First(Patch):
        apply_before_collect = True

        @classmethod
        def patches(cls, options=None):
            return [AtomicPatch("grp_lib.h", lambda: "new")]

    class Second(Patch):
        @classmethod
        def patches(cls, options=None):
            order.append(library.h())
            return []

    Patcher().add(Second, First).apply()
    assert order == ["new"]


def test_patches_is_called_once_per_patcher(library):
    calls = []

    class Counted(Patch):
        @classmethod
        def patches(cls, options=None):
            calls.append(options)
            return [AtomicPatch("grp_lib.f", lambda: "new")]

    patcher = Patcher().add(Counted).apply()
    patcher.apply().restore().apply()
    assert len(calls) == 1 and library.f() == "new"


def test_apply_all_and_iteration(library):
    (result,) = GroupF.apply_all({"value": 9})
    assert (result.status, result.name, result.module, result.reason) == (
        PatchStatus.APPLIED,
        "grp_lib.f",
        "grp_lib",
        "",
    )
    assert library.f() == 9
    assert [patch.target for patch in GroupF()] == ["grp_lib.f"]


def test_a_patch_applies_alone(library):
    patch = AtomicPatch("grp_lib.g", lambda: "new")
    assert patch.apply().status is PatchStatus.APPLIED and patch.is_applied and library.g() == "new"
    assert AtomicPatch("grp_lib.nothing", 1).apply().status is PatchStatus.SKIPPED


def test_the_first_backend_that_runs_here_is_taken_and_the_report_says_why(library):
    patcher_core.register_backend("testchip", lambda: "no testchip in this machine")

    class Chosen(Patch):
        backends = ("testchip", "portable")

        @classmethod
        def patches(cls, options=None):
            backend = options["backend"]
            return [AtomicPatch("grp_lib.f", lambda: backend)]

    patcher = Patcher().add(Chosen).apply()
    assert library.f() == "portable"
    assert "no testchip in this machine" in patcher.report.applied[0].backend
    patcher.restore()
    patcher_core.register_backend("testchip", lambda: "")
    with Patcher().add(Chosen):
        assert library.f() == "testchip"
    with Patcher(backend="portable").add(Chosen):
        assert library.f() == "portable"
    with Patcher(backend="portable").add(Chosen, options={"backend": "testchip"}):
        assert library.f() == "testchip"


def test_a_patch_without_an_implementation_for_this_machine_is_skipped(library):
    patcher_core.register_backend("testchip2", lambda: "no testchip2 in this machine")

    class OnlyChip(Patch):
        backends = ("testchip2",)

        @classmethod
        def patches(cls, options=None):
            raise AssertionError("asked a group that cannot run here")

    (result,) = Patcher().add(OnlyChip).apply().report
    assert result.status is PatchStatus.SKIPPED and "needs testchip2" in result.reason


def test_upstream_is_left_alone_where_its_own_implementation_runs(library):
    class Alone(Patch):
        backends = ("portable",)

        @staticmethod
        def original_runs_here():
            return True

        @classmethod
        def patches(cls, options=None):
            return [AtomicPatch("grp_lib.f", lambda: "new")]

    (result,) = Patcher().add(Alone).apply().report
    assert library.f() == "old" and "upstream's own implementation" in result.reason
    with Patcher(backend="portable").add(Alone):
        assert library.f() == "new"


def test_an_unknown_backend_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"'npx'.*portable"):
        Patcher(backend="npx")
    with pytest.raises(ValueError, match=r"'npx'.*portable"):
        Patcher().add(GroupF, options={"backend": "npx"})


@pytest.fixture
def strict():
    patcher_core.configure_patcher_logging(on_fail="exception")
    yield
    patcher_core.configure_patcher_logging(on_fail="warning")


def test_strict_mode_raises_and_takes_back_the_writes_of_this_apply(library, strict):
    f, g = library.f, library.g
    patcher = Patcher().add(AtomicPatch("grp_lib.f", lambda: "new")).apply()
    new = library.f

    def broken():
        raise ValueError("precheck blew up")

    patcher.add(
        AtomicPatch("grp_lib.g", lambda: "new"), AtomicPatch("grp_lib.h", lambda: "new", precheck=broken)
    )
    with pytest.raises(PatchError, match=r"grp_lib\.h.*precheck blew up"):
        patcher.apply()
    assert library.g is g and library.f is new
    patcher.restore()
    assert library.f is f


def test_strict_mode_refuses_a_signature_that_callers_do_not_fit(library, strict):
    with pytest.raises(PatchError, match="'required'"):
        Patcher().add(AtomicPatch("grp_lib.f", lambda required: "new")).apply()
    assert library.f() == "old"


def test_nothing_applied_at_all_is_said_with_the_commonest_reason(library, messages):
    Patcher().add(
        AtomicPatch("grp_lib.a", 1), *(AtomicPatch(f"not_installed.f{i}", 1) for i in range(3))
    ).apply()
    (line,) = [text for text in messages(logging.WARNING) if "nothing was applied" in text]
    assert "for 3 of 4 patches" in line and "module not found: not_installed" in line


class Registry:
    def __init__(self):
        self._module_dict = {}

    def register_module(self, name=None, force=False, module=None):
        if name in self._module_dict and not force:
            raise KeyError(f"{name} is already registered")
        self._module_dict[name] = module


def test_registry_patch_registers_reports_and_is_undone(make_module):
    registry = make_module("grp_registry", MODELS=Registry()).MODELS
    registry.register_module("Conv", module=int)
    patches = [
        RegistryPatch("grp_registry.MODELS", str, name="Conv"),
        RegistryPatch("grp_registry.MODELS", dict),
        RegistryPatch("grp_registry.MODELS", name="made", module_factory=lambda: list),
        RegistryPatch("grp_registry.MODELS", bytes, name="Conv", force=False),
        RegistryPatch("grp_registry.__name__", bytes),
        RegistryPatch("grp_registry.NOTHING", bytes),
    ]
    patcher = Patcher().add(*patches).apply()
    assert registry._module_dict == {"Conv": str, "dict": dict, "made": list}
    assert [result.status.value for result in patcher.report] == ["applied"] * 3 + [
        "failed",
        "skipped",
        "skipped",
    ]
    assert patcher.report.results[0].name == "grp_registry.MODELS.Conv"
    patcher.apply()
    patcher.restore()
    assert registry._module_dict == {"Conv": int}
