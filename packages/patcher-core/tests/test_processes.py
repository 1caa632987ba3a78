"""Worker processes of a program that applies its patches at the top of its main module."""

from __future__ import annotations

import multiprocessing

import pytest

FILES = {
    "lib.py": "def f(x): return ('old', x)\n",
    "work.py": "from ghost_extension import op\nimport lib\ndef work(x): return lib.f(x)\n",
}
PROGRAM = """
import sys
from patcher_core import AtomicPatch, Patcher
patcher = Patcher().skip_import("ghost_extension").add(AtomicPatch("lib.f", lambda x: ("new", x)))
patcher.apply(lazy={lazy})
import multiprocessing, warnings
import lib, work
warnings.simplefilter("ignore", DeprecationWarning)  # CPython 3.12 on fork in a process with threads

def main():
    {run}

if __name__ == "__main__":
    got = main()
    assert got == [("new", 1), ("new", 2)], got
    print("done")
"""
POOL = "with multiprocessing.get_context({method!r}).Pool(2) as pool: return pool.map(work.work, [1, 2])"
EXECUTOR = """import concurrent.futures
    context = multiprocessing.get_context({method!r})
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        return list(pool.map(work.work, [1, 2]))"""


@pytest.mark.parametrize(
    ("run", "lazy"), [(POOL, False), (EXECUTOR, True)], ids=["Pool, eager", "ProcessPoolExecutor, lazy"]
)
@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_workers_see_the_patches_and_say_nothing_themselves(run_python, method, run, lazy):
    done = run_python(PROGRAM.format(run=run.format(method=method), lazy=lazy), FILES)
    assert done.stdout.split() == ["done"]
    assert done.stderr.count("PATCHER SUMMARY") == 1


def test_a_failure_in_a_worker_is_said_by_the_worker(run_python):
    program = PROGRAM.replace(
        "Patcher()", 'Patcher().add(AtomicPatch("lib.f", lambda x: 1, precheck=lambda: 1 / 0))'
    )
    done = run_python(program.format(run=POOL.format(method="spawn"), lazy=False), FILES)
    # The pool may end before its second worker has come as far as that.
    assert done.stderr.count("WARNING: failed lib.f") >= 2
