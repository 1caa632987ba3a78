"""Measures, in this process, how far each function raises the memory above that of its arguments.

    python -m large_inputs SIDE COUNT [NAME ...]

Prints a line of JSON for each function: its name, `given`, the MiB of the tensors that it was given and of what it
returned, `added`, the MiB by which the call raised the largest resident size, results included, and `seconds`.
Data of the process, torch's own included, are limited to 4 GiB. Linux only: the largest size is set back through
/proc/self/clear_refs; the C library must give back what is freed at once (MALLOC_MMAP_THRESHOLD_=65536).
"""

from __future__ import annotations

import gc
import json
import re
import resource
import sys
import time
from pathlib import Path
from typing import Any, Iterator

import torch

from mmcv_patches.extension import build_extension_module

from . import LARGE_INPUTS, Size

LIMIT_BYTES = 4 << 30
MIB = 1 << 20


def measure(name: str, size: Size) -> dict[str, Any]:
    function = getattr(build_extension_module(), name)
    arguments = LARGE_INPUTS[name](size)
    gc.collect()
    # 5 sets VmHWM back to the present size (Linux, Documentation/filesystems/proc.rst).
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before, start = resident_mib("VmRSS"), time.process_time()
    result = function(*arguments)
    seconds, added = time.process_time() - start, resident_mib("VmHWM") - before
    given = sum(dict(sizes((arguments, result))).values()) / MIB
    return {"name": name, "given": round(given, 1), "added": round(added, 1), "seconds": round(seconds, 2)}


def resident_mib(field: str) -> float:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    found = re.search(rf"^{field}:\s+(\d+) kB", status, re.MULTILINE)
    assert found is not None
    return int(found[1]) / 1024


def sizes(values: Any) -> Iterator[tuple[int, int]]:
    """Identity and bytes of every tensor's memory and of every Python object of nested lists."""
    if isinstance(values, torch.Tensor):
        yield values.data_ptr(), values.numel() * values.element_size()
        return
    yield id(values), sys.getsizeof(values)
    if isinstance(values, (list, tuple)):
        for value in values:
            yield from sizes(value)


def main(side: str, count: str, *names: str) -> None:
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT_BYTES, LIMIT_BYTES))
    for name in names or LARGE_INPUTS:
        torch.manual_seed(0)
        print(json.dumps(measure(name, Size(int(side), int(count)))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
