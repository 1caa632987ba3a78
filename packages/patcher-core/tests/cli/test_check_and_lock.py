"""``patcher check``, ``patcher lock`` and ``patcher check --locked``."""

from __future__ import annotations

import json

import pytest

from patcher_core.fingerprints import definitions

CALLER = "import greeter.words as w\n"
EVERY_KNOCK = """
from patcher_core import SourceMatchPatch

class EveryKnock(Patch):
    library = "greeter"
    why = "doors are many"

    @classmethod
    def patches(cls, options=None):
        return [SourceMatchPatch("greeter.doors.*", "*.knock", matches=["0123456789abcdef"], replacement=knock_twice)]

CATALOG.append(EveryKnock)
"""
SUPPLIED_MODULE = """
from types import ModuleType
from patcher_core import ModulePatch

class Native(Patch):
    library = "greeter"
    why = "the compiled greeting is not built"

    @classmethod
    def patches(cls, options=None):
        return [ModulePatch("greeter._native", lambda: ModuleType("_native"))]

class FastGreeting(Patch):
    library = "greeter"
    why = "it asks for a device"

    @classmethod
    def patches(cls, options=None):
        return [AtomicPatch("greeter.fast.greet", loud_greet)]

CATALOG += [Native, FastGreeting]
"""


def test_check_resolves_everything_and_ends_with_status_0(project):
    out = project.patcher("check", "--with", "greeter").stdout
    rows = [line.split() for line in out.splitlines()]
    assert ["applied", "greeter.words.greet", "LoudGreeting"] in rows
    assert ["applied", "greeter.words.part", "SoftParting", "portable"] in rows
    assert "ok: 2 targets would be replaced" in out


def test_check_finds_what_would_fail(project):
    project.install({"greeter/words.py": "raise RuntimeError('broken installation')\n"})
    out = project.patcher("check", status=1).stdout
    assert (
        "problem: greeter.words.greet: importing greeter.words failed: RuntimeError: broken installation"
        in out
    )


def test_check_finds_a_library_outside_the_verified_versions(project):
    metadata = project.libraries / "greeter-1.0.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text().replace("1.0", "2.5"))
    metadata.parent.rename(project.libraries / "greeter-2.5.dist-info")
    out = project.patcher("check", status=1).stdout
    assert "problem: greeter: found 2.5, verified for >=1.0,<2 by patches-greeter" in out


def test_check_finds_callers_that_no_longer_fit(project):
    words = (
        (project.libraries / "greeter/words.py")
        .read_text()
        .replace("def greet(name)", "def greet(name, tone=1)")
    )
    project.install({"greeter/words.py": words})
    out = project.patcher("check", status=1).stdout
    assert "problem: greeter.words.greet: callers of the original may not fit the replacement" in out
    assert "'tone'" in out


def test_patches_that_exclude_one_another_are_refused(project):
    module = project.libraries / "greeter_patches.py"
    text = module.read_text().replace('why = "one is not heard"', "conflicts_with = ('LoudGreeting',)")
    module.write_text(text)
    message = "LoudGreeting cannot be enabled together"
    for arguments in (["check"], ["lock"], ["run"]):
        chosen = ("--patch", "Knocking", "LoudGreeting")
        assert message in project.patcher(*arguments, *chosen, status=2).stderr
    project.patcher("check", "--patch", "Knocking", "LoudGreeting", "--disable", "LoudGreeting")


def test_check_finds_that_a_named_patch_would_do_nothing(project):
    out = project.patcher("check", "--patch", "SoftParting", "--backend", "original", status=1).stdout
    assert "problem: SoftParting: was asked for and would not be applied: as told" in out


def test_check_as_json(project):
    found = json.loads(project.patcher("check", "--json").stdout)
    assert found["ok"] is True and found["problems"] == [] and found["locked"] is None
    statuses = {result["name"]: result["status"] for result in found["results"]}
    assert statuses["greeter.words.greet"] == "applied"


def test_check_sees_libraries_beside_the_configuration(project):
    project.write("greeter/__init__.py", "")
    project.write("greeter/words.py", "def other(): pass\n")
    out = project.patcher("check", status=1).stdout
    assert "target not found: greeter.words.greet" in out


def test_the_lock_records_versions_and_the_source_of_every_target(project):
    assert "recorded" in project.patcher("lock", "--with", "greeter", "--patch", "Knocking").stdout
    model = json.loads(project.read("patcher.lock"))["models"]["default"]
    assert model["sets"] == {"patches-greeter": "0.5"} and model["libraries"] == {"greeter": "1.0"}
    greet = model["targets"]["greeter.words.greet"]
    assert greet["patch"] == "LoudGreeting" and len(greet["fingerprint"]) == 16
    # The helper that it calls, and the constant that the helper reads, are part of what it does.
    assert {'    return join("hello", name)', "    return word + SEPARATOR + name", 'SEPARATOR = ", "'} <= {
        *greet["source"]
    }
    assert "def knock(self, times=1):" in "\n".join(model["targets"]["greeter.words.Door.knock"]["source"])


def test_what_waits_for_a_module_of_the_model_is_recorded_when_it_is_named(project):
    module = project.libraries / "greeter_patches.py"
    module.write_text(module.read_text() + EVERY_KNOCK)
    chosen = ("lock", "--patch", "EveryKnock", "LoudGreeting")

    out = project.patcher(*chosen).stdout
    assert "recorded 1 targets of model default" in out
    assert "EveryKnock  greeter.doors.*:*.knock" in out and "--import" in out

    project.install(
        {
            "greeter/doors/__init__.py": "",
            "greeter/doors/front.py": "class Front:\n    def knock(self): pass\n",
        }
    )
    out = project.patcher(*chosen, "--import", "greeter.doors.front").stdout
    assert "recorded 2 targets of model default" in out and "--import" not in out
    recorded = json.loads(project.read("patcher.lock"))["models"]["default"]["targets"]
    assert recorded["greeter.doors.front.Front.knock"]["patch"] == "EveryKnock"


def test_models_share_a_lock_file(project):
    project.write("patcher.toml", '[models.a]\nwith = ["greeter"]\n[models.b]\npatch = ["Knocking"]\n')
    project.patcher("lock", "--model", "a")
    project.patcher("lock", "--model", "b")
    models = json.loads(project.read("patcher.lock"))["models"]
    assert list(models["a"]["targets"]) == ["greeter.words.greet", "greeter.words.part"]
    assert list(models["b"]["targets"]) == ["greeter.words.Door.knock"]
    assert project.patcher("check", "--locked", "--model", "b").returncode == 0


def test_an_unchanged_library_is_as_it_was_recorded(project):
    project.patcher("lock", "--with", "greeter")
    out = project.patcher("check", "--locked", "--with", "greeter").stdout
    assert "safe" in out and "2 targets would be replaced" in out


def test_what_imports_only_with_the_patches_is_compared_with_them(project):
    module = project.libraries / "greeter_patches.py"
    module.write_text(module.read_text() + SUPPLIED_MODULE)
    fast = "from . import _native\n\ndef greet(name):\n    return 'hello, ' + name\n"
    project.install({"greeter/fast.py": fast})
    chosen = ("--patch", "Native", "FastGreeting")
    project.patcher("lock", *chosen)
    assert "safe   FastGreeting" in project.patcher("check", "--locked", *chosen).stdout

    project.install({"greeter/fast.py": fast.replace("hello", "good day")})
    out = project.patcher("check", "--locked", *chosen, status=1).stdout
    assert "changed: greeter.fast.greet (FastGreeting)" in out
    assert "-    return 'hello, ' + name" in out and "+    return 'good day, ' + name" in out


def test_a_target_whose_module_nothing_else_imports_is_compared_with_the_original(project):
    module = project.libraries / "greeter_patches.py"
    front = "class Front:\n    def knock(self): pass\n"
    project.install({"greeter/doors/__init__.py": "", "greeter/doors/front.py": front})
    fingerprint = definitions(front, "Front.knock")[0].fingerprint
    module.write_text(module.read_text() + EVERY_KNOCK.replace("0123456789abcdef", fingerprint))
    project.patcher("lock", "--patch", "EveryKnock", "--import", "greeter.doors.front")
    assert "safe   EveryKnock" in project.patcher("check", "--locked", "--patch", "EveryKnock").stdout

    project.install({"greeter/doors/front.py": front.replace("pass", "return 1")})
    out = project.patcher("check", "--locked", "--patch", "EveryKnock", status=1).stdout
    assert "changed: greeter.doors.front.Front.knock (EveryKnock)" in out


def test_after_an_upgrade_check_names_what_changed_and_what_is_safe(project):
    project.install(
        {"greeter/words.py": (project.libraries / "greeter/words.py").read_text() + "\ndef unused(): pass\n"}
    )
    project.patcher("lock", "--with", "greeter", "--patch", "Knocking")
    project.upgrade_library()
    words = project.libraries / "greeter/words.py"
    words.write_text(words.read_text().replace('return join("goodbye", name)', 'return "goodbye, " + name'))
    out = project.patcher("check", "--locked", "--with", "greeter", "--patch", "Knocking", status=1).stdout
    assert "greeter: 1.0 was recorded, 1.1 is installed" in out
    # greet itself is the same: its helper is another one.
    assert "changed: greeter.words.greet (LoudGreeting)" in out
    assert "-    return word + SEPARATOR + name" in out and '+    return f"{word}{SEPARATOR}{name}"' in out
    assert '+        return " ".join(["knock"] * times)  # as people do' in out


def test_an_upgrade_that_changes_comments_only_is_safe(project):
    project.patcher("lock")
    words = (project.libraries / "greeter/words.py").read_text()
    project.upgrade_library()
    project.install(
        {"greeter/words.py": words.replace("def greet(name):", "def greet(name: str) -> str:  # polite")}
    )
    out = project.patcher("check", "--locked").stdout
    assert "greeter: 1.0 was recorded, 1.1 is installed" in out
    assert "every target is as it was recorded" in out


def test_a_target_that_is_gone_is_missing(project):
    project.patcher("lock")
    project.install({"greeter/words.py": "SEPARATOR = ', '\n"})
    out = project.patcher("check", "--locked", status=1).stdout
    assert "missing: greeter.words.greet (LoudGreeting) target not found: greeter.words.greet" in out


def test_the_comparison_as_json(project):
    project.patcher("lock", "--with", "greeter")
    project.upgrade_library()
    found = json.loads(project.patcher("check", "--locked", "--json", "--with", "greeter", status=1).stdout)
    locked = found["locked"]
    assert locked["is_safe"] is False and locked["patches"] == {
        "LoudGreeting": "changed",
        "SoftParting": "changed",
    }
    assert {"name": "greeter", "recorded": "1.0", "present": "1.1"} in locked["versions"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "patcher.lock is not there; write it with `patcher lock`"),
        ("{", "is no lock file"),
        ('{"format": 99, "models": {}}', "has format 99; write it anew"),
        ('{"format": 1, "models": {"a": {}}}', "has no model default (it has a)"),
    ],
)
def test_a_lock_that_cannot_be_used_is_an_error_that_says_what_to_do(project, content, message):
    if content is not None:
        project.write("patcher.lock", content)
    assert message in project.patcher("check", "--locked", status=2).stderr


def test_nothing_is_recorded_of_what_does_not_work(project):
    project.install({"greeter/words.py": "1 / 0\n"})
    assert "patcher.lock was not written" in project.patcher("lock", status=1).stdout
    assert not (project.folder / "patcher.lock").exists()


def test_a_lock_of_nothing_is_not_written(project):
    (project.libraries / "patches_greeter-0.5.dist-info" / "entry_points.txt").unlink()
    assert (
        "patcher.lock was not written: there is nothing to record" in project.patcher("lock", status=1).stdout
    )
    assert not (project.folder / "patcher.lock").exists()


def test_rules_for_imports_alone_are_something_that_would_be_applied(project):
    (project.libraries / "patches_greeter-0.5.dist-info" / "entry_points.txt").unlink()
    project.write("patcher.toml", 'skip-import = ["absent_library"]')
    assert "ok: 0 targets would be replaced, 1 import rule would act" in project.patcher("check").stdout
