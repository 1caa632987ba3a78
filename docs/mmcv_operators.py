"""Writes docs/mmcv-operators.md: every function of mmcv._ext, which mmcv asks for it, its tests, its time.

    python docs/mmcv_operators.py             # from functions.json, the tests, and the times measured last
    python docs/mmcv_operators.py --measure   # measure the times anew; needs PATCHER_REFERENCE_MMCV
    python docs/mmcv_operators.py --measure-memory [NAME ...]   # measure the memory anew, of some functions or of all

Times are those of benchmarks/bench_mmcv_operators.py, kept in docs/mmcv-operators-times.json. Memory is measured with
the inputs of packages/patches-mmcv/tests/extension/large_inputs, kept in docs/mmcv-operators-memory.json.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "docs" / "mmcv-operators.md"
TIMES = ROOT / "docs" / "mmcv-operators-times.json"
MEMORY = ROOT / "docs" / "mmcv-operators-memory.json"
PACKAGE = ROOT / "packages" / "patches-mmcv"
TESTS = PACKAGE / "tests" / "extension"

HEAD = """# mmcv's operators without a compiler

`patches-mmcv` brings the functions of `mmcv._ext` in plain PyTorch, forward and backward, for any torch device; the
patch `PortableExtension` supplies them where mmcv was installed without its compiled operators. {implemented} of
{total} exist.

A function does what the compiled one does: outputs are written in place, in their dtype, gradients are added where the
compiled function adds them, and half precision is summed in float32. Where a result differs from mmcv's, the docstring
of the function says so. Tensors that are not contiguous are taken for what they are: some of mmcv's functions
refuse them, and its `roi_align` reads their memory as if they were (2.1.0 on the CPU).

"Time" is that of the plain PyTorch function divided by that of mmcv 2.1.0 compiled, on the CPU, one thread; empty
where mmcv has no kernel for the CPU. {machine}

"Memory" is a promise: a call allocates, what it returns included, at most this many times the memory of its arguments
and results, and {working} MiB for the ranges that large work is done in. "Measured" is by how many MiB one call raised
the largest resident size of a process, and how many it was given, with four megapixels (of one to 18 channels; regions
of interest: 100,000, one of them as large as the image) or 100,000 points or boxes (against 20 others where all pairs
are an output). Data of that process, torch's own included, were limited to 4 GiB (RLIMIT_DATA): no function needs
more. `tests/extension/test_memory.py` holds every function to its promise.

This page is written by `python docs/mmcv_operators.py`; do not edit it.

| function | mmcv | tests | time | memory | measured |
|---|---|---|---|---|---|
"""


def page() -> str:
    """The whole page."""
    from mmcv_patches.extension import WORKING_MEMORY_BYTES, coverage, declared_functions

    found = coverage()
    times, memory = (json.loads(file.read_text(encoding="utf-8")) for file in (TIMES, MEMORY))
    tests = {file.stem: file.read_text(encoding="utf-8") for file in sorted(TESTS.glob("test_*.py"))}
    lines = []
    for name, function in declared_functions().items():
        versions = function.mmcv_versions
        asked = versions[0] if len(versions) == 1 else f"{versions[0]} to {versions[-1]}"
        used = tests_of(name, function.module, tests)
        cells = (
            f"`{name}`" + (" (not written yet)" if name in found.missing else ""),
            asked,
            ", ".join(f"[{test[len('test_') :]}](#tests)" for test in used),
            f"{times['ratios'][name]:.2g}" if name in times["ratios"] else "",
            f"{function.memory} x",
            "{added:.0f} for {given:.0f}".format(**memory[name]) if name in memory else "",
        )
        lines.append(f"| {' | '.join(cells)} |\n")
    head = HEAD.format(
        implemented=found.implemented,
        total=found.total,
        machine=f"Measured on {times['machine']}.",
        working=WORKING_MEMORY_BYTES >> 20,
    )
    return head + "".join(lines) + legend(tests)


def tests_of(name: str, module: str, tests: dict[str, str]) -> list[str]:
    """The test files that bear the name of the function's module, or that name the function."""
    word = re.compile(rf"\b{name}\b")
    return [test for test, source in tests.items() if test == f"test_{module}" or word.search(source)]


def legend(tests: dict[str, str]) -> str:
    """What each test file compares with, in the words of its docstring."""
    lines = (
        f"- `{test}.py`: {ast.get_docstring(ast.parse(source)).splitlines()[0]}\n"
        for test, source in tests.items()
    )
    return f"\n## Tests\n\nIn `{TESTS.relative_to(ROOT).as_posix()}`:\n\n" + "".join(lines)


def measure() -> None:
    """Write the times of this machine."""
    sys.path.insert(0, str(ROOT))
    from benchmarks.bench_mmcv_operators import ratios
    from benchmarks.paired import machine

    measured = {name: float(f"{ratio.median:.2g}") for name, _, ratio in ratios()}
    if not measured:
        sys.exit("nothing measured: set PATCHER_REFERENCE_MMCV to the folder of a compiled mmcv 2.1.0")
    text = json.dumps({"machine": machine(), "ratios": measured}, indent=2)
    TIMES.write_text(text + "\n", encoding="utf-8")


def measure_memory(names: list[str]) -> None:
    """Write what the functions ``names``, by default all, allocate on four megapixels or 100,000 points or boxes."""
    command = [sys.executable, "-m", "large_inputs", "2048", "100000", *names]
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True, env=environment, cwd=TESTS)
    measured = json.loads(MEMORY.read_text(encoding="utf-8")) if names else {}
    for line in done.stdout.splitlines():
        found = json.loads(line)
        measured[found["name"]] = {"given": found["given"], "added": max(0, found["added"])}
    lines = (f"  {json.dumps(name)}: {json.dumps(measured[name])}" for name in sorted(measured))
    MEMORY.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    if "--measure" in sys.argv[1:]:
        measure()
    if "--measure-memory" in sys.argv[1:]:
        measure_memory([name for name in sys.argv[1:] if not name.startswith("--")])
    TABLE.write_text(page(), encoding="utf-8")
