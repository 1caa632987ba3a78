"""What patches of torch cost the calls that are none of their business: tensors on the CPU, with the NPU's patches in.

Runs on the simulated NPU, without which these patches do not apply.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from typing import Iterator

from .paired import Figure, Ratio


def figures() -> Iterator[Figure]:
    """A row for each operation: patched beside restored, in one process."""
    command = [sys.executable, "-m", "benchmarks.bench_torch"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    for name, ratio in json.loads(done.stdout.splitlines()[-1]).items():
        yield Figure(f"torch: {name}, patched", Ratio(**ratio), 1.15, "restored")


def measure() -> dict[str, dict[str, float]]:
    """The ratios, as data, at sizes at which the operation itself takes 10 microseconds or more."""
    import torch

    from patcher_core import Patcher, configure_summary, set_patcher_log_level
    from torch_patches import BatchMatmul, TensorIndex

    from .paired import paired_states

    configure_summary(False)
    set_patcher_log_level("ERROR")
    torch.set_num_threads(1)
    vector, mask = torch.randn(20_000), torch.rand(20_000) < 0.5
    matrix, rows = torch.randn(2_000, 16), torch.rand(2_000) < 0.5
    parameter = torch.randn(4, 1_000, requires_grad=True)
    a, b = torch.randn(64, 256), torch.randn(256, 256)
    small, columns = torch.randn(2_000, 4, 4), torch.randn(2_000, 4, 1)
    operations = {
        "x[mask], 20,000 elements": lambda: vector[mask],
        "x[mask], 2,000 rows of 16": lambda: matrix[rows],
        "x[0], forward and backward": lambda: parameter[0].sum().backward(),
        "a @ b, 64 x 256 by 256 x 256": lambda: a @ b,
        "a @ b, 2,000 matrices of 4 x 4 by 4 x 1": lambda: small @ columns,
    }
    patcher = Patcher().add(TensorIndex, BatchMatmul).disable("transfer_to_npu")
    patcher.apply()
    applied = {result.group for result in patcher.report.applied}
    if applied != {TensorIndex.name, BatchMatmul.name}:
        raise RuntimeError(f"nothing to measure: {patcher.report}")
    return {
        name: asdict(paired_states(operation, patcher.apply, patcher.restore))
        for name, operation in operations.items()
    }


if __name__ == "__main__":
    from patcher_testing.npu import simulated_npu

    with simulated_npu():
        print(json.dumps(measure()))
