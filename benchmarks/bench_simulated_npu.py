"""What it costs to start the simulated NPU, and what each operator costs on it beside the CPU."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from typing import Iterator

from .paired import Amount

#: `import torch` included, as a test session pays it; the C library was built before.
_START = """
import json, time
before = time.process_time()
from patcher_testing.npu import simulated_npu
with simulated_npu():
    print(json.dumps(time.process_time() - before))
"""

#: Seconds that a call of an operator takes on the NPU beyond what it takes on the CPU: the best of several rounds.
_OPERATORS = """
import json, time, timeit
from patcher_testing.npu import simulated_npu

def seconds(function):
    return min(timeit.repeat(function, number=500, repeat=7, timer=time.process_time)) / 500

with simulated_npu():
    import torch, torch_npu
    torch.set_num_threads(1)
    x, weight = torch.randn(4, 8), torch.rand(8)
    on_npu, npu_weight = x.npu(), weight.npu()
    print(json.dumps({
        "add": seconds(lambda: on_npu + on_npu) - seconds(lambda: x + x),
        "matmul": seconds(lambda: on_npu @ on_npu.t()) - seconds(lambda: x @ x.t()),
        "rms_norm": seconds(lambda: torch_npu.npu_rms_norm(on_npu, npu_weight))
        - seconds(lambda: torch.nn.functional.rms_norm(x, (8,), weight)),
    }))
"""


def _output_of(code: str) -> object:
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def figures() -> Iterator[Amount]:
    _output_of(_START)
    yield Amount(
        "simulated NPU: start, torch included",
        statistics.median(_output_of(_START) for _ in range(3)),
        "s",
        8,
    )
    extra = _output_of(_OPERATORS)
    assert isinstance(extra, dict)
    yield Amount("simulated NPU: more per aten operator (add)", extra["add"] * 1e6, "µs", None)
    yield Amount("simulated NPU: more per composite operator (matmul)", extra["matmul"] * 1e6, "µs", None)
    yield Amount("simulated NPU: more per npu operator (npu_rms_norm)", extra["rms_norm"] * 1e6, "µs", None)
