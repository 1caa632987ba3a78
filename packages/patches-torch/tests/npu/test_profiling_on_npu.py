"""Profiling on the simulated NPU: the real torch_npu.profiler, without the tools of CANN below it."""

from __future__ import annotations

import csv
import json

import pytest

torch = pytest.importorskip("torch", reason="the profiler is torch_npu's")

from patcher_core import Patcher, configure_summary  # noqa: E402

pytestmark = pytest.mark.simulated_npu


@pytest.fixture(autouse=True)
def quiet():
    configure_summary(False)
    yield
    configure_summary(True)


def profile(folder, **settings):
    """Train for as long as profiling takes; gives back the number of steps."""
    model = torch.nn.Linear(4, 4).npu()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    steps = 0
    patcher = Patcher().disable("transfer_to_npu").with_profiling(folder, **settings).brake_at(exit_code=None)
    with patcher:
        for batch in patcher.steps(torch.rand(2, 4) for _ in range(40)):
            model(batch.npu()).sum().backward()
            optimizer.step()
            steps += 1
    return steps


LEVELS = {
    0: (["ProfilerActivity.NPU"], "Level0", False, False),
    1: (["ProfilerActivity.CPU", "ProfilerActivity.NPU"], "Level1", True, False),
    2: (["ProfilerActivity.CPU", "ProfilerActivity.NPU"], "Level2", True, True),
}


@pytest.mark.parametrize("level", LEVELS)
def test_torch_npu_is_told_what_the_level_means(level, simulated_npu, tmp_path):
    steps = profile(tmp_path, level=level, skip_first=1, wait=1, warmup=2, active=1, repeat=1)
    assert steps == 1 + (1 + 2 + 1) * 2
    traces = sorted(tmp_path.glob("rank0_*_ascend_pt"))
    assert len(traces) == 2
    activities, detail, with_shapes, with_stack = LEVELS[level]
    for trace in traces:  # torch_npu writes down what it was told
        config = json.loads((trace / "profiler_info.json").read_text())["config"]
        common, experimental = config["common_config"], config["experimental_config"]
        assert sorted(common["activities"]) == activities
        assert (common["record_shapes"], common["with_stack"]) == (with_shapes, with_stack)
        assert experimental["_profiler_level"] == detail
        schedule = {"wait": 1, "warmup": 2, "active": 1, "repeat": 2, "skip_first": 1}
        assert schedule.items() <= common["schedule"].items()


def test_a_trace_in_which_the_device_recorded_nothing_is_named(simulated_npu, tmp_path, caplog):
    profile(tmp_path, skip_first=0, repeat=0)
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert any("trace 1 of rank 0" in text and "no kernel_details.csv" in text for text in said)


def test_the_table_sums_up_the_kernels_of_torch_npus_file(simulated_npu, tmp_path):
    from torch_npu.profiler.analysis.prof_common_func._csv_headers import CsvHeaders

    from torch_patches.profiling import npu_operator_table

    output = tmp_path / "rank0_1_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True)
    kernels = [
        ("matmul_1", "MatMul", 3.5),
        ("add_1", "Add", 0.25),
        ("matmul_2", "MatMul", 1.5),
        ("add_2", "Add", 0.75),
    ]
    with open(output / "kernel_details.csv", "w", newline="") as stream:
        writer = csv.DictWriter(stream, CsvHeaders.OP_SUMMARY_KERNEL_BASE_HEADERS, restval="N/A")
        writer.writeheader()
        writer.writerows({"Name": name, "Type": kind, "Duration(us)": time} for name, kind, time in kernels)
    rows = [line.split() for line in npu_operator_table(None, str(output.parent)).splitlines()]
    assert rows[1:] == [["MatMul", "5.00", "2", "2.50"], ["Add", "1.00", "2", "0.50"]]
