"""Peak memory of the plain PyTorch operators of mmcv._ext, beside that of the compiled ones and of mmcv's fallback.

Each operator is called in a process of its own, once to load what it needs and once to be measured; what counts is by
how much the second call raises the largest resident size of the process, its results included. Linux only: the largest
size is set back through /proc/self/clear_refs, and the C library gives freed memory back at once.
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Iterator

from .bench_deformable_attention import LAYERS, calls
from .bench_mmcv_operators import cases, compiled_extension
from .paired import Amount

OPERATORS = ("nms", "roi_align_forward", "roi_align_backward", "deform_conv_forward", "hard_voxelize_forward")
#: Layers of Deformable DETR, whose gradients are computed too; what is behind the comma is a key of LAYERS.
ATTENTION = tuple(f"ms_deform_attn, {layer}" for layer in LAYERS)

#: What each operator is compared with; the child process is told which one to call.
OURS, PEER = "plain PyTorch", "peer"


def figures() -> Iterator[Amount]:
    """Two amounts for each operator: ours, and that of its peer."""
    for name in (*OPERATORS, *ATTENTION):
        peer = "mmcv's Python fallback" if name in ATTENTION else "mmcv 2.1.0 compiled"
        yield Amount(f"{name}, peak memory, {OURS}", peak(name, OURS), "MiB", None)
        if name in ATTENTION or compiled_extension() is not None:
            yield Amount(f"{name}, peak memory, {peer}", peak(name, PEER), "MiB", None)


def peak(name: str, side: str) -> float:
    """MiB by which one call raises the largest resident size of a fresh process."""
    command = [sys.executable, "-m", __name__, name, side]
    # Every large block is a mapping of its own, which goes back to the system when it is freed.
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True, env=environment)
    return float(done.stdout)


def call(name: str, side: str) -> Callable[[], Any]:
    """The operator with its inputs, ready to be called."""
    import torch

    from mmcv_patches.extension import build_extension_module

    torch.set_num_threads(1)
    if name in ATTENTION:
        ours, peer = calls(LAYERS[name.rpartition(" ")[2]])["with gradients"]
        return ours if side == OURS else peer
    module = build_extension_module() if side == OURS else compiled_extension()
    return next(functools.partial(function, module) for case, _, function in cases() if case == name)


def resident_size(field: str) -> float:
    """MiB, of this process: ``VmRSS`` now, ``VmHWM`` at most since it was set back."""
    found = re.search(
        rf"^{field}:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"), re.MULTILINE
    )
    assert found is not None
    return int(found[1]) / 1024


def forget_largest_resident_size() -> None:
    """Set VmHWM back to the present size; 5 stands for that in Linux's Documentation/filesystems/proc.rst."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


if __name__ == "__main__":
    function = call(*sys.argv[1:])
    function()
    forget_largest_resident_size()
    before = resident_size("VmRSS")
    result = function()
    print(resident_size("VmHWM") - before)
