"""How the old interface behaves, one test per promise that programs written for it rely on."""

from __future__ import annotations

LIBRARY = {
    "lib/__init__.py": "",
    "lib/ops.py": """
        def f(x): return x
        def g(x): return x
        class Registry:
            def __init__(self): self._module_dict = {}
            def register_module(self, name=None, force=False, module=None):
                self._module_dict[name] = module
        MODELS = Registry()
        def late(): pass
        """,
}

HEAD = """
from mx_driving.patcher import *
import lib.ops
def raises(error, call, *parts):
    try:
        call()
    except error as caught:
        assert all(part in str(caught) for part in parts), caught
    else:
        raise AssertionError(f"{error.__name__} expected")
"""


def behaves(run_program, code, files=None):
    return run_program(HEAD + code, {**LIBRARY, **(files or {})})


def test_an_atomic_patch_applied_alone_gives_back_its_result(run_program):
    behaves(
        run_program,
        """
patch = AtomicPatch("lib.ops.f", lambda x: "new", aliases=["lib.ops.also"])
assert isinstance(patch, BasePatch) and (patch.name, patch.module) == ("lib.ops.f", "lib")
assert patch.target == "lib.ops.f" and patch.aliases == ["lib.ops.also"] and not patch.is_applied
assert patch.precheck is None and patch.runtime_check is None and callable(patch.replacement)
result = patch.apply()
assert (result.status, result.name, result.module, result.reason) == (PatchStatus.APPLIED, "lib.ops.f", "lib", "")
assert patch.is_applied and lib.ops.f(1) == "new" and not hasattr(lib.ops, "also")
assert AtomicPatch("lib.ops.g", "lib.ops.late").replacement is lib.ops.late
""",
    )


def test_what_is_not_there_is_skipped_and_what_is_wrong_fails(run_program):
    behaves(
        run_program,
        """
def outcome(*args, **kwargs):
    result = AtomicPatch(*args, **kwargs).apply()
    return result.status.name, result.reason
new = lambda x: "new"
def broken(*args): raise RuntimeError("out of luck")
assert outcome("lib.ops.absent", new) == ("SKIPPED", "target not found: lib.ops.absent")
assert outcome("no_such_lib.f", new) == ("SKIPPED", "module not found: no_such_lib")
assert outcome("lib.ops.f", new, precheck=lambda: False) == ("SKIPPED", "precheck failed")
assert outcome("one_segment", new)[0] == "FAILED"
for arguments in ({"precheck": broken}, {"replacement_wrapper": broken}):
    status, reason = outcome("lib.ops.f", new, **arguments)
    assert status == "FAILED" and "out of luck" in reason
status, reason = outcome("lib.ops.f", target_wrapper=broken)
assert status == "FAILED" and "out of luck" in reason and lib.ops.f(1) == 1
""",
    )


def test_get_info_names_original_and_replacement_and_shows_a_diff(run_program):
    behaves(
        run_program,
        """
def replacement(x):
    return "new"
patch = AtomicPatch("lib.ops.f", replacement)
assert patch.get_info() == "lib.ops.f: lib.ops.f -> __main__.replacement"
info = patch.get_info(show_diff=True)
assert "-def f(x): return x" in info and '+    return "new"' in info
""",
    )


def test_a_registry_patch_registers_a_class(run_program):
    behaves(
        run_program,
        """
class Net: pass
raises(ValueError, lambda: RegistryPatch("lib.ops.MODELS"), "module_cls")
raises(ValueError, lambda: RegistryPatch("lib.ops.MODELS", module_factory=lambda: Net), "name")
assert RegistryPatch("lib.ops.MODELS", Net).name == "lib.ops.MODELS.Net"
assert RegistryPatch("lib.ops.MODELS", Net, name="Other", force=False).apply().status is PatchStatus.APPLIED
assert RegistryPatch("lib.ops.MODELS", module_factory=lambda: Net, name="Made").apply().status is PatchStatus.APPLIED
assert lib.ops.MODELS._module_dict == {"Other": Net, "Made": Net}
for patch in (RegistryPatch("lib.ops.ABSENT", Net), RegistryPatch("lib.ops.f", Net)):
    assert patch.apply().status is PatchStatus.SKIPPED
assert RegistryPatch("lib.ops.MODELS", Net, precheck=lambda: False).apply().reason == "precheck failed"
""",
    )


def test_a_legacy_patch_runs_a_function_on_a_module(run_program):
    behaves(
        run_program,
        """
def patch(module, options): module.f = lambda x: options["value"]
def nothing_here(module, options): module.absent.f = None
def broken(module, options): raise ValueError("out of luck")
raises(ValueError, lambda: LegacyPatch(patch), "target_module")
assert LegacyPatch(patch, {"value": 3}, "lib.ops").apply().status is PatchStatus.APPLIED and lib.ops.f(1) == 3
assert LegacyPatch(patch, target_module="no_such_lib").apply().status is PatchStatus.SKIPPED
skipped = LegacyPatch(nothing_here, target_module="lib.ops").apply()
assert skipped.status is PatchStatus.SKIPPED and "absent" in skipped.reason
failed = LegacyPatch(broken, target_module="lib.ops").apply()
assert failed.status is PatchStatus.FAILED and "out of luck" in failed.reason
""",
    )


def test_a_group_has_a_name_applies_alone_and_is_iterable(run_program):
    behaves(
        run_program,
        """
class Group(Patch):
    @classmethod
    def patches(cls, options=None):
        value = (options or {}).get("value", "new")
        return [AtomicPatch("lib.ops.f", lambda x: value), AtomicPatch("lib.ops.absent", lambda x: value)]
class Named(Group):
    name = "my_name"
assert (Group.name, Group().name, Named.name) == ("Group", "Group", "my_name")
assert [patch.target for patch in Group()] == ["lib.ops.f", "lib.ops.absent"]
results = Group.apply_all({"value": 4})
assert [result.status.name for result in results] == ["APPLIED", "SKIPPED"] and lib.ops.f(1) == 4
summary = Named({"value": 5}).apply()
assert (summary.status, summary.name) == (PatchStatus.APPLIED, "my_name") and lib.ops.f(1) == 5
""",
    )


def test_patch_called_with_a_function_makes_the_1_0_wrapper(run_program):
    behaves(
        run_program,
        """
def low(module, options): module.f = lambda x: options["value"]
def high(module, options): pass
wrapper = Patch(low, {"value": 2}, priority=5, patch_failure_warning=False)
assert isinstance(wrapper, LegacyPatchWrapper) and isinstance(wrapper, Patch)
assert (wrapper.func, wrapper.name, wrapper.options, wrapper.priority) == (low, "low", {"value": 2}, 5)
assert wrapper.patch_failure_warning is False and wrapper.is_applied is False
assert sorted([wrapper, Patch(high)])[0].func is high
patcher = Patcher({"lib.ops": [wrapper, Patch(high)]}, {"high"}, allow_internal_format=True)
patcher.apply()
assert lib.ops.f(1) == 2 and wrapper.is_applied and patcher.is_applied
""",
    )


def test_a_patcher_takes_classes_instances_and_whatever_looks_like_a_group(run_program):
    behaves(
        run_program,
        """
class Group(Patch):
    @classmethod
    def patches(cls, options=None): return [AtomicPatch("lib.ops.f", lambda x: options and options["value"])]
class LooksLikeOne:
    name = "looks_like_one"
    @classmethod
    def patches(cls, options=None): return [AtomicPatch("lib.ops.g", lambda x: "new")]
    @classmethod
    def apply_all(cls, options=None): return []
patcher = Patcher()
assert patcher.add(Group, options={"value": 6}) is patcher and not patcher.is_applied
patcher.add(LooksLikeOne, AtomicPatch("lib.ops.late", lambda: "late"))
for wrong in (3, "lib.ops.f", lambda module, options: None, object):
    raises(TypeError, lambda: patcher.add(wrong))
with patcher:
    assert patcher.is_applied and (lib.ops.f(1), lib.ops.g(1), lib.ops.late()) == (6, "new", "late")
    assert [result.name for result in patcher.report] == ["lib.ops.f", "lib.ops.g", "lib.ops.late"]
one = AtomicPatch("lib.ops.late", lambda: "late")
with Patcher().add(Group({"value": 7}), LooksLikeOne, one).disable(LooksLikeOne.name, one):
    assert (lib.ops.f(1), lib.ops.g(1), lib.ops.late()) == (7, 1, None)
with Patcher().add(Group, LooksLikeOne).disable(Group):
    assert (lib.ops.f(1), lib.ops.g(1)) == (1, "new")
""",
    )


def test_a_second_apply_does_nothing_and_says_so(run_program):
    done = behaves(
        run_program,
        """
def wrap(original): return lambda x: original(x) + 1
patcher = Patcher().add(AtomicPatch("lib.ops.f", target_wrapper=wrap))
patcher.apply(allow_internal_format=False)
patcher.apply()
patcher.apply(True)
assert lib.ops.f(1) == 2
""",
    )
    warnings = [line for line in done.stderr.splitlines() if "WARNING" in line]
    assert sum("is applied already; nothing changed" in line for line in warnings) == 2


def test_print_info_has_one_line_per_patch_with_its_state(run_program):
    done = behaves(
        run_program,
        """
class Group(Patch):
    @classmethod
    def patches(cls, options=None): return [AtomicPatch("lib.ops.f", lambda x: "new")]
patcher = Patcher().add(Group, AtomicPatch("lib.ops.g", lambda x: "new")).disable("lib.ops.g")
patcher.print_info()
patcher.apply()
patcher.print_info(diff=True)
""",
    )
    before, after = done.stderr.split("PATCHER SUMMARY")
    assert "[pending] Group" in before and "[disabled] lib.ops.g" in before
    assert (
        "[applied] lib.ops.f" in after and "-def f(x): return x" in after and "[disabled] lib.ops.g" in after
    )


def test_two_groups_that_exclude_each_other_raise_with_the_fix(run_program):
    done = behaves(
        run_program,
        """
class First(Patch):
    @classmethod
    def patches(cls, options=None): return [AtomicPatch("lib.ops.f", lambda x: "first")]
class Second(Patch):
    conflicts_with = ("First",)
    @classmethod
    def patches(cls, options=None): return [AtomicPatch("lib.ops.f", lambda x: "second")]
patcher = Patcher().add(First, Second)
raises(ValueError, patcher.apply, "patcher.disable('First')", "patcher.disable('Second')")
assert lib.ops.f(1) == 1
patcher.disable(First.name).apply()
assert lib.ops.f(1) == "second"
""",
    )
    assert "WARNING" in done.stderr and "patcher.disable('First')" in done.stderr


def test_replace_import_refuses_contradictions(run_program):
    behaves(
        run_program,
        """
patcher = Patcher()
raises(ValueError, lambda: patcher.replace_import("absent", "lib.ops", base_module="lib.ops"))
raises(ValueError, lambda: patcher.replace_import("absent", exports={"f": 1}, f=2), "f")
patcher.replace_import("absent", base_module="lib.ops", exports={"g": 1}, extra=2).skip_import("absent_too")
import absent, absent_too.deeper
assert (absent.f(3), absent.g, absent.extra) == (3, 1, 2)
patcher.inject_import("lib.ops", "late", "lib")
assert lib.late is lib.ops.late
assert patcher.allow_internal_format().disallow_internal_format().allow_internal_format(allow=False) is patcher
""",
    )


def test_a_builder_collects_configures_and_builds(run_program):
    done = behaves(
        run_program,
        """
def patch(module, options): module.f = lambda x: "new"
def left_out(module, options): module.g = lambda x: "new"
builder = LegacyPatcherBuilder()
assert builder.add_module_patch("lib.ops", Patch(patch), Patch(left_out)) is builder
assert builder.disable_patches("left_out") is builder
patcher = builder.build(allow_internal_format=True)
assert not patcher.is_applied
patcher.transfer_to_npu()
with patcher:
    assert patcher.is_applied and (lib.ops.f(1), lib.ops.g(1)) == ("new", 1)
""",
    )
    assert "transfer_to_npu" in done.stderr


def test_profiling_and_early_stop_take_the_old_arguments(run_program):
    behaves(
        run_program,
        """
import inspect
parameters = inspect.signature(Patcher.with_profiling).parameters
defaults = {"level": 0, "skip_first": 20, "wait": 1, "warmup": 1, "active": 1, "repeat": 1}
assert list(parameters) == ["self", "path", *defaults]
assert {name: parameters[name].default for name in defaults} == defaults
for level in (-1, 3):
    raises(ValueError, lambda: Patcher().with_profiling("traces", level=level), "level")
    raises(ValueError, lambda: PatcherBuilder().with_profiling("traces", level), "level")
raises(ValueError, lambda: PatcherBuilder().brake_at(0), "step")
builder = PatcherBuilder()
assert builder.with_profiling("traces", 2, active=3) is builder and builder.brake_at(40) is builder
patcher = Patcher()
assert patcher.with_profiling("traces", 2) is patcher and patcher.brake_at(40) is patcher
""",
    )


def test_with_imports_takes_a_module_with_a_list_of_names(run_program):
    behaves(
        run_program,
        """
from mx_driving.patcher.patch import with_imports as same
assert same is with_imports
@with_imports(("lib.ops", "f", "g", "late"), "json", "from os import path as p")
def both(x): return f(x) + g(x), late(), json.dumps(x), p.basename("a/b")
assert both(2) == (4, None, "2", "b")
@with_imports(("lib.ops", "f"), apply_decorators=[("functools.lru_cache", {"maxsize": 3})])
def cached(x): return [f(x)]
assert cached(1) is cached(1)
@with_imports(("lib.ops", "f", "absent"))
def broken(x): return absent(x)
raises(ImportError, lambda: broken(1), "absent", "lib.ops")
raises(ValueError, lambda: with_imports(("lib.ops",)))
""",
    )


def test_the_logger_is_called_like_the_old_package(run_program):
    done = behaves(
        run_program,
        """
import logging
from mx_driving.patcher.patcher_logger import LogAction, PatcherLogger
assert isinstance(patcher_logger, PatcherLogger) and patcher_logger.logger.name == "mx_driving.patcher"
records = []
class Handler(logging.Handler):
    def emit(self, record): records.append((record.name, record.levelname))
patcher_logger.info("first")
logging.getLogger("mx_driving").addHandler(Handler())
patcher_logger.warning("second"), patcher_logger.debug("third"), patcher_logger.error("fourth")
logging.getLogger("mx_driving.patcher").setLevel(logging.DEBUG)
patcher_logger.debug("fifth")
set_patcher_log_level("ERROR")
patcher_logger.warning("sixth")
names, levels = zip(*records)
assert set(names) == {"mx_driving.patcher"} and levels == ("WARNING", "WARNING", "DEBUG"), records
patcher_logger.set_level("INFO"), patcher_logger.set_rank(3)
assert patcher_logger.rank == 3 and not patcher_logger.is_main_process
patcher_logger.set_rank_from_env()
assert patcher_logger.rank == 0 and patcher_logger.is_main_process
patcher_logger.configure(on_fail="exception", on_skip=LogAction.SILENT, on_apply="debug", on_error="warning")
raises(PatchError, lambda: Patcher().add(AtomicPatch("lib.ops.f", lambda x: 1, precheck=lambda: 1 / 0)).apply(), "f")
configure_patcher_logging(on_fail="warning")
""",
    )
    assert "[Patcher] INFO: first" in done.stderr


def test_a_level_chosen_before_the_import_stays(run_program):
    done = run_program(
        """
        import logging
        logging.getLogger("mx_driving.patcher").setLevel(logging.ERROR)
        from mx_driving.patcher import AtomicPatch, Patcher
        Patcher().add(AtomicPatch("one_segment", 3)).apply()
        """
    )
    assert done.stderr == ""


def test_events_told_to_the_logger_are_summed_up(run_program):
    done = behaves(
        run_program,
        """
patcher_logger.configure_summary(enabled=True, show_skipped=False)
patcher_logger.applied("my.target", package="my", patch_name="Mine")
patcher_logger.skipped("my.other", reason="not here", package="my", patch_name="Mine")
patcher_logger.failed("my.third", reason="out of luck", package="my", patch_name="Mine")
patcher_logger.flush_summary()
patcher_logger.flush_summary()
""",
    )
    assert done.stderr.count("PATCHER SUMMARY") == 1 and "+ my.target" in done.stderr
    assert "my.other" not in done.stderr and "! my.third (out of luck)" in done.stderr


def test_by_default_failures_are_warnings_and_the_rest_is_information(run_program):
    done = behaves(
        run_program,
        """
Patcher().add(
    AtomicPatch("lib.ops.f", lambda x: 1), AtomicPatch("lib.ops.absent", lambda x: 1), AtomicPatch("single", 1)
).apply()
""",
    )
    lines = done.stderr.splitlines()
    assert [line for line in lines if line.startswith("[Patcher] WARNING")] == [
        line for line in lines if "WARNING" in line
    ]
    assert "WARNING: failed single" in done.stderr
    assert (
        "+ lib.ops.f" in done.stderr and "~ lib.ops.absent (target not found: lib.ops.absent)" in done.stderr
    )


def test_versions_are_asked_by_name(run_program):
    behaves(
        run_program,
        """
assert get_version("somelib") == "2.1.3" and get_version("no_such_lib") is None
assert check_version("somelib") and check_version("somelib", 2) and check_version("somelib", major=2, minor=1)
assert not check_version("somelib", 1) and not check_version("no_such_lib")
""",
        {"somelib-2.1.3.dist-info/METADATA": "Metadata-Version: 2.1\nName: somelib\nVersion: 2.1.3\n"},
    )
