"""``patcher init``: a folder that runs a model's own scripts with patches."""

from __future__ import annotations

import os

FILES = ["patch.py", "requirements.txt", "test.py", "train.py", "train_8p.sh"]


def test_the_skeleton_runs_the_model_s_own_scripts_with_patches(project):
    project.write(
        "tools/train.py",
        "import sys, neighbour\nfrom greeter.words import greet\nprint(greet('a'), sys.argv[1:])\n",
    )
    project.write("tools/neighbour.py", "")
    project.write("tools/test.py", "from greeter.words import greet\nprint('test', greet('b'))\n")
    project.patcher("init")
    assert sorted(os.listdir(project.folder / "migrate_to_ascend")) == FILES
    assert (
        project.python("migrate_to_ascend/train.py", "config", "--x").stdout == "HELLO, A ['config', '--x']\n"
    )
    assert project.python("migrate_to_ascend/test.py").stdout == "test HELLO, B\n"


def test_worker_processes_of_the_skeleton_are_patched(project):
    project.write(
        "tools/train.py",
        """
        import multiprocessing
        from greeter.words import greet
        if __name__ == "__main__":
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                print(pool.map(greet, ["a"]), greet("b"))
        """,
    )
    project.patcher("init")
    assert project.python("migrate_to_ascend/train.py").stdout == "['HELLO, A'] HELLO, B\n"


def test_the_requirements_are_what_is_installed(project):
    project.patcher("init")
    assert "patches-greeter~=0.5\n" in project.read("migrate_to_ascend/requirements.txt")


def test_nothing_is_overwritten(project):
    project.write("migrate_to_ascend/patch.py", "mine = 1\n")
    out = project.patcher("init").stdout
    assert project.read("migrate_to_ascend/patch.py") == "mine = 1\n"
    assert "left alone, it is there already: ./migrate_to_ascend/patch.py" in out
    assert (project.folder / "migrate_to_ascend/train.py").exists()


def test_the_shell_script_is_executable_and_valid(project):
    project.patcher("init")
    script = project.folder / "migrate_to_ascend" / "train_8p.sh"
    assert os.access(script, os.X_OK)
    assert os.system(f"bash -n '{script}'") == 0


def test_a_folder_that_is_not_there_is_an_error(project):
    assert "name the model's repository" in project.patcher("init", "nowhere", status=2).stderr
