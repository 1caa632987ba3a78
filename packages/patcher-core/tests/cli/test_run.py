"""``patcher run``: the program runs as Python runs it, and is patched."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import venv
import zipfile

import pytest

GREET = "from greeter.words import greet\nprint(greet('bob'))\n"
OBSERVED = """
    import json, os, sys
    main = sys.modules["__main__"]
    print(json.dumps({
        "argv": sys.argv, "path": sys.path, "name": __name__, "file": globals().get("__file__"),
        "package": __package__, "spec": __spec__ and __spec__.name, "main": main.__dict__ is globals(),
        "flags": list(sys.flags), "warnings": sys.warnoptions, "parent": os.getppid(), "cwd": os.getcwd(),
    }))
"""


def test_an_unmodified_script_is_patched(project):
    project.write("train.py", GREET)
    assert project.patcher("run", "--", "train.py").stdout == "HELLO, BOB\n"
    assert project.python("train.py").stdout == "hello, bob\n"


@pytest.mark.parametrize(
    "command",
    [
        ["tools/train.py", "--lr", "0.1", "--", "-x"],
        ["-m", "tools.train", "a b"],
        ["-m", "package"],
        ["folder"],
        ["archive.pyz", "1"],
    ],
    ids=lambda command: " ".join(command),
)
def test_the_program_sees_what_it_sees_under_python(project, command):
    for name in ("tools/train.py", "package/__main__.py", "folder/__main__.py"):
        project.write(name, OBSERVED)
    project.write("package/__init__.py", "")
    with zipfile.ZipFile(project.folder / "archive.pyz", "w") as archive:
        archive.write(project.folder / "folder" / "__main__.py", "__main__.py")
    plain, patched = project.python(*command), project.patcher("run", "--", *command)
    assert json.loads(patched.stdout) == json.loads(plain.stdout)


def test_a_script_behind_a_symbolic_link_finds_its_neighbours_before_installed_libraries(project):
    project.write("real/greeter/__init__.py", "")
    project.write("real/greeter/words.py", "def greet(name): return 'mine ' + name\n")
    project.write(
        "real/train.py", "import greeter.words\nprint(greeter.words.__file__, greeter.words.greet('x'))\n"
    )
    (project.folder / "train.py").symlink_to(project.folder / "real" / "train.py")
    out = project.patcher("run", "--", "train.py").stdout
    assert out == f"{project.folder / 'real/greeter/words.py'} HELLO, X\n"


@pytest.mark.parametrize("status", ["0", "3", "None", "'message'"])
def test_the_exit_status_is_the_program_s(project, status):
    project.write("train.py", f"import sys\nsys.exit({status})\n")
    plain, patched = (
        project.python("train.py", status=None),
        project.patcher("run", "--", "train.py", status=None),
    )
    assert patched.returncode == plain.returncode
    assert plain.stderr in patched.stderr


def test_a_traceback_has_no_frames_of_ours(project):
    project.write("train.py", "from greeter.words import join\ndef f(): join(1, 2)\nf()\n")
    plain, patched = project.python("train.py", status=1), project.patcher("run", "--", "train.py", status=1)
    traceback = patched.stderr[patched.stderr.index("Traceback") :]
    assert traceback.startswith(plain.stderr)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_signals_reach_the_program_itself(project, number):
    project.write("train.py", "import time\nprint('ready', flush=True)\ntime.sleep(60)\n")
    command = [sys.executable, "-m", "patcher_core", "run", "--", "train.py"]
    with subprocess.Popen(
        command, cwd=project.folder, env=project.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        assert process.wait(60) == -number


def test_standard_input_is_the_program_s(project):
    project.write("train.py", "print(input())\n")
    command = [sys.executable, "-m", "patcher_core", "run", "--", "train.py"]
    done = subprocess.run(
        command, cwd=project.folder, env=project.environment(), input="text\n", capture_output=True, text=True
    )
    assert done.stdout == "text\n"


def test_sets_and_patches_can_be_chosen(project):
    project.write(
        "train.py", "import greeter.words as w\nprint(w.greet('a'), w.part('b'), w.Door().knock())\n"
    )

    def run(*options):
        return project.patcher("run", *options, "--", "train.py").stdout.strip()

    assert run() == "HELLO, A goodbye, b knock"
    assert run("--with", "greeter") == "HELLO, A bye b knock"
    assert run("--with", "patches-greeter", "--disable", "LoudGreeting") == "hello, a bye b knock"
    assert run("--patch", "Knocking", "SoftParting") == "hello, a bye b knockknock"
    assert (
        run("--patch", "patches-greeter:Knocking", "--with", "greeter_patches") == "HELLO, A bye b knockknock"
    )
    assert run("--lazy") == "HELLO, A goodbye, b knock"


def test_imports_can_be_skipped_and_replaced(project):
    project.write("slow_ops.py", "def op(): return 'slow'\n")
    project.write("train.py", "import flash.attention\nfrom fast_ops import op\nprint(op(), bool(flash))\n")
    done = project.patcher(
        "run", "--skip-import", "flash", "--replace-import", "fast_ops=slow_ops", "--", "train.py"
    )
    assert done.stdout == "slow False\n"


def test_a_program_written_for_the_predecessor_finds_its_import_path(project):
    project.write(
        "train.py",
        """
        from mx_driving.patcher import AtomicPatch, Patcher
        Patcher().add(AtomicPatch("greeter.words.part", "greeter_patches.soft_part")).apply()
        import greeter.words as w
        print(w.greet("a"), w.part("b"))
        """,
    )
    assert project.patcher("run", "--", "train.py").stdout == "HELLO, A bye b\n"


def test_a_command_of_this_environment_is_run_and_one_of_another_is_refused(project, tmp_path):
    venv.create(tmp_path / "other", with_pip=False)
    other = tmp_path / "other" / "bin" / "greet"
    code = "from greeter.words import greet\nprint(greet('a'))\n"
    for script, interpreter in (
        (other, tmp_path / "other" / "bin" / "python"),
        (tmp_path / "here" / "greet", sys.executable),
    ):
        script.parent.mkdir(exist_ok=True)
        script.write_text(f"#!{interpreter}\n{code}")
        script.chmod(0o755)
    path = {"PATH": os.pathsep.join([str(tmp_path / "here"), os.environ["PATH"]])}
    assert project.patcher("run", "--", "greet", env=path).stdout == "HELLO, A\n"
    path = {"PATH": os.pathsep.join([str(other.parent), os.environ["PATH"]])}
    done = project.patcher("run", "--", "greet", env=path, status=2)
    assert "the Python of another environment, which would not be patched" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--with", "greter", "--", "train.py"], "did you mean 'greeter'?"),
        (["--patch", "Knockin", "--", "train.py"], "did you mean 'Knocking'?"),
        (["--backend", "tpu", "--", "train.py"], "not a known backend; known here: "),
        (["--replace-import", "a", "--", "train.py"], "'a' is not OLD=NEW"),
        (["--report", "r.txt", "--", "train.py"], "must end with .html or .json"),
        (["--report", "no/r.json", "--", "train.py"], "make it first"),
        ([], "names no program"),
        (["--", "trian.py"], "neither a file here nor a command on PATH"),
        (["--", "-m"], "-m needs a value"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_wrong_command_line_ends_with_status_2_and_says_what_to_do(project, arguments, text):
    project.write("train.py", "print('ran')\n")
    done = project.patcher("run", *arguments, status=2)
    assert text in done.stderr
    assert not done.stdout and "Traceback" not in done.stderr


def test_a_strict_run_ends_before_the_program_where_a_patch_fails(project):
    project.install({"greeter/words.py": "raise RuntimeError('broken installation')\n"})
    project.write("train.py", "print('ran')\n")
    done = project.patcher("run", "--strict", "--", "train.py", status=3)
    assert "broken installation" in done.stderr and not done.stdout
    assert "ran" in project.patcher("run", "--", "train.py").stdout


def test_what_was_never_called_is_listed_at_the_end(project):
    project.write("train.py", GREET)
    done = project.patcher("run", "--with", "greeter", "--", "train.py")
    listing = done.stderr[done.stderr.index("applied but never called:") :]
    assert "SoftParting: greeter.words.part" in listing
    assert "greet\n" not in listing


def test_a_replacement_whose_runtime_check_never_chose_it_counts_as_never_called(project):
    project.write("train.py", "import greeter.words as w\nw.greet('x'); w.part('a long name')\n")
    assert (
        "SoftParting"
        in project.patcher("run", "--with", "greeter", "--", "train.py").stderr.partition("never")[2]
    )
    project.write("train.py", "import greeter.words as w\nw.greet('x'); w.part('al')\n")
    assert "never called" not in project.patcher("run", "--with", "greeter", "--", "train.py").stderr


def test_calls_that_are_not_watched_leave_the_replacement_as_it_is(project):
    project.write(
        "train.py",
        "import greeter.words as w, greeter_patches\nprint(w.greet is greeter_patches.loud_greet)\n",
    )
    done = project.patcher("run", "--no-watch-calls", "--", "train.py")
    assert done.stdout == "True\n" and "never called" not in done.stderr


def test_a_watched_replacement_pickles_and_shows_the_original_s_name_and_signature(project):
    project.write(
        "train.py",
        """
        import inspect, pickle
        from greeter.words import greet
        assert pickle.loads(pickle.dumps(greet)) is greet
        print(greet.__module__, greet.__name__, inspect.signature(greet))
        """,
    )
    assert project.patcher("run", "--", "train.py").stdout == "greeter.words greet (name)\n"


def test_the_json_report_says_what_happened(project):
    project.write("train.py", GREET)
    project.patcher("run", "--with", "greeter", "--report", "report.json", "--", "train.py")
    report = json.loads(project.read("report.json"))
    results = {result["name"]: result for result in report["results"]}
    assert results["greeter.words.greet"]["status"] == "applied"
    assert results["greeter.words.greet"]["called"] is True
    assert results["greeter.words.part"]["called"] is False
    assert "loud_greet" in report["sources"]["greeter.words.greet"]["replacement"]["source"]
    assert [process["role"] for process in report["processes"]] == ["program"]


def test_nothing_is_left_behind(project, tmp_path):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    project.write("train.py", "raise SystemExit(5)\n")
    project.patcher("run", "--", "train.py", status=5, env={"TMPDIR": str(temporary)})
    assert not list(temporary.iterdir())
    assert os.listdir(project.folder) == ["train.py"]


def test_a_module_without_dashes_before_it_is_told_where_it_belongs(project):
    said = project.patcher("run", "-m", "package", "--flag", status=2).stderr
    assert "patcher run -- -m module" in said
