"""``patcher.toml`` and ``[tool.patcher]``: the options of the command line, per model."""

from __future__ import annotations

import pytest

PROGRAM = "import greeter.words as w\nprint(w.greet('a'), w.part('b'), w.Door().knock())\n"
FILE = """
    with = ["greeter"]

    [models.quiet]
    disable = ["LoudGreeting"]

    [models.knocking]
    with = []
    patch = ["Knocking"]
"""


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        ([], "HELLO, A bye b knock"),
        (["--model", "quiet"], "hello, a bye b knock"),
        (["--model", "knocking"], "hello, a goodbye, b knockknock"),
        (["--model", "quiet", "--disable", "SoftParting"], "HELLO, A goodbye, b knock"),
    ],
)
def test_a_model_s_options_come_before_common_ones_and_the_command_line_before_both(
    project, arguments, printed
):
    project.write("train.py", PROGRAM)
    project.write("patcher.toml", FILE)
    assert project.patcher("run", *arguments, "--", "train.py").stdout.strip() == printed


def test_pyproject_and_named_files_are_read_as_well(project):
    project.write("train.py", PROGRAM)
    project.write("pyproject.toml", '[project]\nname = "model"\n\n[tool.patcher]\nwith = ["greeter"]\n')
    assert project.patcher("run", "--", "train.py").stdout == "HELLO, A bye b knock\n"
    project.write("patcher.toml", 'patch = ["Knocking"]\n')
    assert project.patcher("run", "--", "train.py").stdout == "hello, a goodbye, b knockknock\n"
    project.write("else/where.toml", 'replace-import.fast_ops = "greeter.words"\nlazy = true\n')
    project.write(
        "train.py", "import fast_ops, greeter.words as w\nprint(fast_ops.SEPARATOR, w.greet('a'))\n"
    )
    assert project.patcher("run", "--config", "else/where.toml", "--", "train.py").stdout == ",  HELLO, A\n"


def test_a_pyproject_of_something_else_is_passed_over(project):
    project.write("train.py", PROGRAM)
    project.write("pyproject.toml", "[tool.other]\nskip_imports = 1\n")
    assert project.patcher("run", "--", "train.py").stdout == "HELLO, A goodbye, b knock\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'lazy = true\n\nskip_import = ["a"]\n',
            "patcher.toml:3: unknown key 'skip_import'; did you mean 'skip-import'?",
        ),
        ("[models.a]\nwith = 3\n", 'patcher.toml:2: with must be a list of names such as ["set"], got 3'),
        (
            '# x\n[models."b c"]\nlazy = true\nstrickt = true\n',
            "patcher.toml:4: unknown key 'strickt'; did you mean 'strict'?",
        ),
        ("[modles.a]\nwith = []\n", "patcher.toml:1: unknown key 'modles'; did you mean 'models'?"),
        ("models = 4\n", "patcher.toml:1: models must be tables such as [models.NAME]"),
        ("[models]\na = 4\n", "patcher.toml:2: models.a must be a table, got 4"),
        ("brake-at = 0\n", "patcher.toml:1: brake-at must be a whole number above 0, got 0"),
        ("brake-at = true\n", "patcher.toml:1: brake-at must be a whole number above 0, got True"),
        ('strict = "yes"\n', "patcher.toml:1: strict must be true or false, got 'yes'"),
        (
            "[replace-import]\nfast_ops = 1\n",
            'patcher.toml:1: replace-import must be a table such as { old = "new" }',
        ),
        ("report = []\n", "patcher.toml:1: report must be a text, got []"),
        ("lazy = true\nlazy = yes\n", "line 2"),
        ('with = ["greter"]\n', "did you mean 'greeter'?"),
    ],
)
def test_a_mistake_is_named_with_its_line_and_what_was_meant(project, text, message):
    project.write("train.py", PROGRAM)
    project.write("patcher.toml", text)
    done = project.patcher("run", "--", "train.py", status=2)
    assert message in done.stderr
    assert not done.stdout


def test_a_mistake_in_pyproject_is_named_with_its_line(project):
    project.write("train.py", PROGRAM)
    project.write("pyproject.toml", "[project]\nwith = 1\n[tool.patcher]\nwiht = []\n")
    message = "pyproject.toml:4: unknown key 'wiht'; did you mean 'with'?"
    assert message in project.patcher("run", "--", "train.py", status=2).stderr


def test_the_table_of_pyproject_may_be_written_in_any_way_that_toml_has(project):
    project.write("train.py", PROGRAM)
    project.write("pyproject.toml", '[tool]\npatcher.patch = ["Knocking"]\n')
    assert project.patcher("run", "--", "train.py").stdout == "hello, a goodbye, b knockknock\n"
    project.write("pyproject.toml", "[tool]\npatcher = 3\n")
    done = project.patcher("run", "--", "train.py", status=2)
    assert "pyproject.toml:2: patcher must be a table, got 3" in done.stderr


def test_an_unknown_model_is_answered_with_the_nearest(project):
    project.write("patcher.toml", FILE)
    done = project.patcher("run", "--model", "quite", "--", "train.py", status=2)
    assert "there is no [models.quite]; it has quiet, knocking; did you mean 'quiet'?" in done.stderr


def test_a_model_without_a_file_and_a_file_that_is_not_there_are_errors(project):
    assert (
        "name one with --config" in project.patcher("run", "--model", "a", "--", "train.py", status=2).stderr
    )
    assert "no.toml" in project.patcher("run", "--config", "no.toml", "--", "train.py", status=2).stderr
