"""Watching which replacements are called, as ``patcher run`` does, leaves torch's compilers their way."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

LIBRARY = """
    import torch

    def activate(x: torch.Tensor, slope: float = 1.0) -> torch.Tensor:
        return x * slope
"""
PATCHES = """
    import torch
    from patcher_core import AtomicPatch, Patch

    def activate(x: torch.Tensor, slope: float = 1.0) -> torch.Tensor:
        return torch.relu(x) * slope + 1

    class Activation(Patch):
        library = "library"
        @classmethod
        def patches(cls, options=None):
            return [AtomicPatch("library.activate", activate)]

    CATALOG = ALL = DEFAULT = [Activation]
"""
PROGRAM = """
    import sys
    import torch
    import library

    def model(x):
        return library.activate(x, slope=2.0)

    x = torch.linspace(-1, 1, 5)
    expected = torch.relu(x) * 2 + 1
    if sys.argv[1] == "script":
        result = torch.jit.script(library.activate)(x, 2.0)
    elif sys.argv[1] == "compile":
        result = torch.compile(model, fullgraph=True, backend="eager")(x)
    assert torch.equal(result, expected), result
    print("equal")
"""


def run(folder, *arguments: str) -> subprocess.CompletedProcess[str]:
    files = {
        "library.py": LIBRARY,
        "library_patches.py": PATCHES,
        "train.py": PROGRAM,
        "patches_library-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: patches-library\nVersion: 1\n",
        "patches_library-1.dist-info/entry_points.txt": "[patcher.patch_sets]\nlibrary = library_patches\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(textwrap.dedent(text))
    hidden = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "PATCHER_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    environment["PYTHONPATH"] = str(folder)
    command = [sys.executable, "-m", "patcher_core", "run", "--with", "library", "--", "train.py", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=200)


def test_torch_jit_script_compiles_the_replacement(tmp_path):
    done = run(tmp_path, "script")
    assert done.stdout == "equal\n", done.stderr


def test_torch_compile_takes_it_into_one_graph_and_the_call_is_known(tmp_path):
    done = run(tmp_path, "compile")
    assert done.stdout == "equal\n", done.stderr
    assert "never called" not in done.stderr
