"""Each thing that the simulated NPU needs and does not find gives one clear reason."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="the simulated NPU needs torch")

START = """
from patcher_testing.npu import SimulatedNpuUnavailable, simulated_npu
try:
    with simulated_npu():
        print("started")
except SimulatedNpuUnavailable as reason:
    print(reason)
"""


def reason(before="", **environment):
    done = subprocess.run(
        [sys.executable, "-c", before + START],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_no_compiler(tmp_path):
    text = reason(PATCHER_TESTING_CACHE=str(tmp_path), CC="no-such-compiler")
    assert "needs gcc, which is not on PATH. Install a C compiler" in text


def test_a_compiler_that_fails(tmp_path):
    text = reason(PATCHER_TESTING_CACHE=str(tmp_path), CC="false")
    assert "failed with status 1" in text
    assert not list(tmp_path.glob("npu-runtime-*")), "half a build was left"


def test_no_torch():
    text = reason("import sys; sys.modules['torch'] = None\n")
    assert "needs torch 2.13.0, which is not installed. Install it with: pip install torch==2.13.0" in text


def test_another_torch():
    text = reason("import importlib.metadata; importlib.metadata.version = lambda name: '2.7.1+cpu'\n")
    assert "needs torch 2.13.0" in text and "found torch 2.7.1" in text


def test_no_torch_npu(tmp_path):
    hide = "import sys; sys.path = [path for path in sys.path]; sys.modules['torch_npu'] = None\n"
    text = reason(hide, PATCHER_TESTING_CACHE=str(tmp_path), PATCHER_TESTING_NPU_PACKAGES="")
    assert "torch_npu 2.13.0 was not found" in text
    assert "python -m patcher_testing.npu install" in text


def test_torch_npu_of_another_python(tmp_path):
    package = tmp_path / "torch_npu"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "_C.cpython-38-x86_64-linux-gnu.so").touch()
    text = reason(PATCHER_TESTING_NPU_PACKAGES=str(tmp_path))
    assert "built for another Python" in text and "_C.cpython-38-x86_64-linux-gnu.so" in text


def test_a_real_npu_is_not_covered_by_a_simulated_one(tmp_path):
    (tmp_path / "empty.c").touch()
    library = str(tmp_path / "libascendcl.so")
    subprocess.run(["gcc", "-shared", "-o", library, str(tmp_path / "empty.c")], check=True)
    text = reason(LD_LIBRARY_PATH=str(tmp_path))
    assert "libascendcl.so of a real NPU is here" in text


def test_processes_that_build_at_the_same_time_all_start(tmp_path):
    environment = {**os.environ, "PATCHER_TESTING_CACHE": str(tmp_path)}
    if "PATCHER_TESTING_NPU_PACKAGES" not in os.environ:
        from patcher_testing.npu.packages import find_packages

        environment["PATCHER_TESTING_NPU_PACKAGES"] = os.pathsep.join(find_packages().folders)
    command = [sys.executable, "-c", START]
    processes = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    assert [process.communicate()[0] for process in processes] == ["started\n"] * 3
    assert len(list(tmp_path.iterdir())) == 1
