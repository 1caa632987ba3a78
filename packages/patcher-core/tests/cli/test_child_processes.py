"""Every Python process that a run starts is patched, once; what belongs to others is left alone."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import venv

import pytest

WORKERS = """
    import multiprocessing, sys
    from greeter.words import greet

    def work(name):
        from greeter import words
        return greet(name), words.greet(name), len([f for f in sys.meta_path if "patcher_core" in type(f).__module__])

    if __name__ == "__main__":
        with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
            print(set(pool.map(work, ["a", "b"])) == {("HELLO, A", "HELLO, A", 1), ("HELLO, B", "HELLO, B", 1)})
"""


@pytest.mark.parametrize("options", [[], ["--lazy"]], ids=["eager", "lazy"])
@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_workers_of_multiprocessing(project, method, options):
    project.write("train.py", WORKERS)
    done = project.patcher("run", *options, "--", "train.py", method)
    assert done.stdout == "True\n"
    assert done.stderr.count("PATCHER SUMMARY") == 1


def test_workers_report_what_they_called_even_if_they_are_killed(project):
    project.write(
        "train.py",
        """
        import multiprocessing, os, signal
        from greeter import words

        def work(queue):
            queue.put(words.greet("a"))
            queue.close(); queue.join_thread()
            os.kill(os.getpid(), signal.SIGKILL)

        if __name__ == "__main__":
            for method in ("fork", "spawn"):
                context = multiprocessing.get_context(method)
                queue = context.Queue()
                process = context.Process(target=work, args=(queue,))
                process.start()
                print(queue.get())
                process.join()
        """,
    )
    done = project.patcher("run", "--", "train.py")
    assert done.stdout == "HELLO, A\nHELLO, A\n"
    assert "never called" not in done.stderr


@pytest.mark.parametrize("kind", ["script", "module", "code", "input"])
def test_a_subprocess_of_the_same_python(project, kind):
    project.write("child.py", "from greeter.words import greet\nprint(greet('c'))\n")
    arguments = {
        "script": ["child.py"],
        "module": ["-m", "child"],
        "code": ["-c", "import child"],
        "input": ["-"],
    }[kind]
    project.write(
        "train.py",
        f"import subprocess, sys\nsubprocess.run([sys.executable, *{arguments}], input=b'import child', check=True)\n",
    )
    done = project.patcher("run", "--", "train.py")
    assert done.stdout == "HELLO, C\n"
    assert done.stderr.count("PATCHER SUMMARY") == 1


def test_a_program_that_becomes_another_program(project):
    project.write("child.py", "from greeter.words import greet\nprint(greet('c'))\n")
    project.write("train.py", "import os, sys\nos.execv(sys.executable, [sys.executable, 'child.py'])\n")
    assert project.patcher("run", "--", "train.py").stdout == "HELLO, C\n"


def test_a_shell_script_and_what_it_starts(project):
    project.write("child.py", "from greeter.words import greet\nprint(greet('c'))\n")
    script = project.write("train.sh", f"#!/bin/sh\nPYTHONPATH=.:$PYTHONPATH {sys.executable} child.py\n")
    script.chmod(0o755)
    assert project.patcher("run", "--", "./train.sh").stdout == "HELLO, C\n"


def test_each_process_is_in_the_report_once(project):
    project.write(
        "train.py",
        """
        import multiprocessing
        from greeter.words import greet

        if __name__ == "__main__":
            context = multiprocessing.get_context("spawn")
            processes = [context.Process(target=greet, args=("a",)) for _ in range(2)]
            for process in processes:
                process.start()
            for process in processes:
                process.join()
        """,
    )
    project.patcher("run", "--report", "report.json", "--", "train.py")
    processes = json.loads(project.read("report.json"))["processes"]
    assert len({process["pid"] for process in processes}) == len(processes)
    assert [process["role"] for process in processes].count("program") == 1
    assert sum("applied" in process["statuses"] for process in processes) == 3


@pytest.mark.parametrize("raises", [False, True])
def test_the_user_s_own_sitecustomize_runs(project, raises):
    project.install({"sitecustomize.py": "import sys\nsys.user_was_here = __file__\n" + "1 / 0\n" * raises})
    project.write(
        "train.py",
        """
        import sys
        from greeter.words import greet
        present = sys.modules.get("sitecustomize")
        print(greet("a"), present is not None and sys.user_was_here == present.__file__)
        """,
    )
    plain = project.python("train.py")
    done = project.patcher("run", "--", "train.py")
    if raises:
        assert "ZeroDivisionError" in plain.stderr and "ZeroDivisionError" in done.stderr
        assert done.stdout.startswith("HELLO, A")
    else:
        assert done.stdout == plain.stdout.replace("hello, a", "HELLO, A") == "HELLO, A True\n"


def test_a_python_of_another_environment_is_left_alone(project, tmp_path):
    venv.create(tmp_path / "other", with_pip=False)
    other = tmp_path / "other" / "bin" / "python"
    project.write(
        "train.py",
        f"import subprocess\nsubprocess.run([{str(other)!r}, 'child.py'], check=True)\n",
    )
    project.write(
        "child.py",
        "import sys\nfrom greeter.words import greet\nprint(greet('c'), 'patcher_core' in sys.modules)\n",
    )
    assert project.patcher("run", "--", "train.py").stdout == "hello, c False\n"


def test_a_program_started_without_the_run_s_environment_is_left_alone(project):
    project.write("child.py", "from greeter.words import greet\nprint(greet('c'))\n")
    environment = {"PYTHONPATH": os.pathsep.join([str(project.libraries)])}
    project.write(
        "train.py",
        f"import subprocess, sys\nsubprocess.run([sys.executable, 'child.py'], env={environment!r}, check=True)\n",
    )
    assert project.patcher("run", "--", "train.py").stdout == "hello, c\n"
