"""``patcher list`` and ``patcher show``."""

from __future__ import annotations

import json

ENTRY_POINTS = "patches_greeter-0.5.dist-info/entry_points.txt"


def test_list_names_sets_versions_pins_and_patches(project):
    out = project.patcher("list").stdout
    assert "patches-greeter 0.5" in out
    assert "greeter: found 1.0, verified for greeter<2,>=1.0" in out
    rows = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert (
        "default" in rows["LoudGreeting"]
        and "upstream cannot be heard <on> the device" in rows["LoudGreeting"]
    )
    assert "--with patches-greeter" in rows["SoftParting"] and "portable" in rows["SoftParting"]
    assert "--patch" in rows["Knocking"]


def test_list_says_which_library_is_absent_or_of_another_version(project):
    for file in (project.libraries / "greeter-1.0.dist-info").iterdir():
        file.write_text(file.read_text().replace("1.0", "2.5"))
    (project.libraries / "greeter-1.0.dist-info").rename(project.libraries / "greeter-2.5.dist-info")
    project.install(
        {ENTRY_POINTS: "[patcher.patch_sets]\ngreeter = greeter_patches\nghost = greeter_patches\n"}
    )
    out = project.patcher("list").stdout
    assert "greeter: found 2.5, verified for greeter<2,>=1.0 (another version is installed" in out
    assert "ghost: not installed" in out


def test_list_imports_no_library_and_survives_a_broken_set(project):
    project.install(
        {
            "greeter/__init__.py": "raise SystemExit('imported')\n",
            "broken_patches.py": "import no_such_module\n",
            "patches_broken-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: patches-broken\nVersion: 1\n",
            "patches_broken-1.dist-info/entry_points.txt": "[patcher.patch_sets]\nother = broken_patches\n",
        }
    )
    out = project.patcher("list").stdout
    assert "failed to load: ModuleNotFoundError: No module named 'no_such_module'" in out
    assert "LoudGreeting" in out


def test_list_as_json(project):
    (described,) = (
        one
        for one in json.loads(project.patcher("list", "--json").stdout)
        if one["module"] == "greeter_patches"
    )
    assert described["libraries"][0]["found"] == "1.0"
    assert {patch["name"]: patch["default"] for patch in described["patches"]} == {
        "LoudGreeting": True,
        "SoftParting": False,
        "Knocking": False,
    }


def test_show_tells_why_and_shows_the_difference_of_both_sides(project):
    out = project.patcher("show", "LoudGreeting").stdout
    assert "why: upstream cannot be heard <on> the device" in out
    assert "upstream: greeter issue 7" in out and "until: greeter 3" in out
    assert "Greets loudly." in out
    assert "AtomicPatch greeter.words.greet" in out
    assert '-    return join("hello", name)' in out
    assert '+    return ("HELLO, " + name).upper()' in out
    assert str(project.libraries / "greeter" / "words.py") in out


def test_show_names_the_condition_and_the_backend(project):
    out = project.patcher("show", "SoftParting", "--source").stdout
    assert "backend: portable" in out
    assert "only for calls that greeter_patches.is_short accepts" in out
    assert 'return join("goodbye", name)' in out and 'return "bye " + name' in out


def test_show_of_a_patch_that_has_no_business_here_says_why(project):
    for file in (project.libraries / "greeter-1.0.dist-info").iterdir():
        file.write_text(file.read_text().replace("Version: 1.0", "Version: 2.5"))
    (project.libraries / "greeter-1.0.dist-info").rename(project.libraries / "greeter-2.5.dist-info")
    assert "not here: found 2.5, verified for >=1.0,<2" in project.patcher("show", "Knocking").stdout


def test_show_as_json(project):
    shown = json.loads(project.patcher("show", "Knocking", "--json").stdout)
    (change,) = shown["changes"]
    assert change["target"] == "greeter.words.Door.knock"
    assert change["sides"]["original"]["source"].lstrip().startswith("def knock(self, times=1):")


def test_an_unknown_name_is_answered_with_the_nearest(project):
    done = project.patcher("show", "LoudGreting", status=2)
    assert "did you mean 'LoudGreeting'?" in done.stderr


def test_the_help_fits_a_screen_and_has_an_example(project):
    for arguments in ([], ["run"], ["list"], ["show"], ["check"], ["lock"], ["init"], ["completion"]):
        out = project.patcher(*arguments, "--help", env={"COLUMNS": "100"}).stdout
        assert len(out.splitlines()) <= 40
        assert "example" in out


def test_without_a_command_the_help_is_shown(project):
    assert "patcher run --with mmcv -- train.py" in project.patcher(status=2).stdout
