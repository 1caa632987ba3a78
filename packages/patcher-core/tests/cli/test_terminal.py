"""What the commands look like: on a terminal, in a file, without colours; and completion in a shell."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

COLOUR = "\x1b["


def on_a_terminal(project, *arguments: str, **variables: str) -> str:
    """What the command writes to a terminal of 120 columns."""
    leader, follower = pty.openpty()
    environment = project.environment({"TERM": "xterm-256color", "COLUMNS": "120", **variables})
    command = [sys.executable, "-m", "patcher_core", *arguments]
    process = subprocess.Popen(command, cwd=project.folder, env=environment, stdout=follower, stderr=follower)
    os.close(follower)
    chunks = []
    while True:
        try:
            chunk = os.read(leader, 65536)
        except OSError:  # the other end was closed
            break
        if not chunk:
            break
        chunks.append(chunk)
    os.close(leader)
    assert process.wait(60) == 0
    return b"".join(chunks).decode()


def test_a_terminal_gets_colours(project):
    shown = on_a_terminal(project, "check", "--with", "greeter")
    assert COLOUR in shown and "greeter.words.greet" in shown


def test_no_color_is_respected(project):
    plain = on_a_terminal(project, "check", "--with", "greeter", NO_COLOR="1")
    assert "\x1b[3" not in plain and "greeter.words.greet" in plain


def test_without_rich_there_is_plain_text(project):
    project.install({"rich/__init__.py": "raise ImportError('not here')\n"})
    assert COLOUR not in on_a_terminal(project, "show", "LoudGreeting")


def test_what_goes_into_a_file_is_plain_text(project):
    assert COLOUR not in project.patcher("check").stdout


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("patcher sh", "show"),
        ("patcher show Kn", "Knocking"),
        ("patcher run --with patches-gr", "patches-greeter"),
        ("patcher check --disable Soft", "SoftParting"),
        ("patcher run --skip", "--skip-import"),
    ],
)
def test_a_shell_completes_commands_options_and_names(project, line, expected):
    environment = project.environment(
        {
            "_ARGCOMPLETE": "1",
            "_ARGCOMPLETE_SUPPRESS_SPACE": "1",
            "COMP_LINE": line,
            "COMP_POINT": str(len(line)),
        }
    )
    # argcomplete answers on file descriptor 8, as its shell function asks it to.
    done = subprocess.run(
        ["bash", "-c", f"'{sys.executable}' -m patcher_core 8>answer 9>/dev/null"],
        cwd=project.folder, env={**environment, "IFS": "\n"}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert expected in project.read("answer").replace("\013", "\n").split(), done


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_code_is_for_this_command(project, shell):
    assert "patcher" in project.patcher("completion", shell).stdout


@pytest.mark.parametrize("arguments", [["check", "--with", "greeter"], ["run", "--", "writes.py"]])
def test_a_closed_standard_output_does_no_harm(project, arguments):
    project.write("writes.py", "open('written', 'w').close()")
    command = [sys.executable, "-m", "patcher_core", *arguments]
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *command],
        cwd=str(project.folder),
        env=project.environment(),
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and "Traceback" not in done.stderr
    assert (project.folder / "written").exists() == (arguments[0] == "run")
