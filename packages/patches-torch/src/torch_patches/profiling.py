"""The profiler behind ``Patcher.with_profiling``: torch_npu.profiler on an NPU, torch.profiler elsewhere."""

from __future__ import annotations

import csv
import glob
import os
import warnings
from typing import Any, Callable, NamedTuple

from patcher_core import patcher_logger
from patcher_core.backends import unavailable
from patcher_core.training import Profiler, Profiling

#: Rows of the table of operators.
TOP_OPERATORS = 30


def open_profiler(profiling: Profiling, rank: int) -> Profiler:
    """A profiler that writes the traces of ``rank`` into ``profiling.path``.

    A trace that cannot be written is one warning; the training goes on.
    """
    rank = _distributed_rank(rank)
    return _npu_profiler(profiling, rank) if not unavailable("npu") else _torch_profiler(profiling, rank)


class _Traces:
    """Writes each trace and the table of its operators, and says so."""

    def __init__(
        self, folder: str, rank: int, write: Callable[[Any], None], table: Callable[[Any, str], str]
    ) -> None:
        self._folder = folder
        self._rank = rank
        self._write = write
        self._table = table
        self._cycle = 0
        self._known = self._written()

    def __call__(self, profiler: Any) -> None:
        self._cycle += 1
        try:
            self._write(profiler)
            new = sorted(self._written() - self._known)
            if not new:
                raise OSError("the profiler wrote nothing")
            self._known.update(new)
            trace, table = new[-1], f"operators_rank{self._rank}_{self._cycle}.txt"
            path = os.path.join(self._folder, trace)
            with open(os.path.join(self._folder, table), "w", encoding="utf-8") as stream:
                stream.write(self._table(profiler, path) + "\n")
        except Exception as error:
            patcher_logger.warning(
                f"trace {self._cycle} of rank {self._rank} is not complete in {self._folder}:"
                f" {type(error).__name__}: {error}"
            )
        else:
            patcher_logger.info(f"profiling: trace {trace} and its operators in {table}")

    def _written(self) -> set[str]:
        """Names of the traces of this rank: files of torch, folders of torch_npu."""
        own = (f"rank{self._rank}.", f"rank{self._rank}_")
        return {name for name in os.listdir(self._folder) if name.startswith(own)}


# ---------------------------------------------------------------------- torch.profiler
def _torch_profiler(profiling: Profiling, rank: int) -> Profiler:
    from torch import profiler

    devices = _devices()
    cpu = profiler.ProfilerActivity.CPU
    activities = devices if profiling.level == 0 and devices else [cpu, *devices]
    write = profiler.tensorboard_trace_handler(profiling.path, worker_name=f"rank{rank}")

    def table(recorded: Any, path: str) -> str:
        sort_by = _device_time_column() if devices else "self_cpu_time_total"
        return str(recorded.key_averages().table(sort_by=sort_by, row_limit=TOP_OPERATORS))

    class EveryCycleByItself(profiler.profile):
        def prepare_trace(self) -> None:
            with warnings.catch_warnings():  # a table for each cycle is what we want
                warnings.filterwarnings("ignore", "Warning: Profiler clears events at the end of each cycle")
                super().prepare_trace()

    opened: Profiler = EveryCycleByItself(
        activities=activities,
        schedule=_schedule(profiler, profiling),
        on_trace_ready=_Traces(profiling.path, rank, write, table),
        record_shapes=profiling.level > 0,
        with_stack=profiling.level == 2,
    )
    return opened


def _devices() -> list[Any]:
    """The activities of the accelerators that are here."""
    import torch

    cpu = torch.profiler.ProfilerActivity.CPU
    found = [activity for activity in torch.profiler.supported_activities() if activity != cpu]
    return [activity for activity in found if activity.name != "CUDA" or torch.cuda.is_available()]


def _device_time_column() -> str:
    """The name of the column, which changed in torch 2.4."""
    from torch.autograd.profiler_util import FunctionEvent

    has_new_name = hasattr(FunctionEvent, "self_device_time_total")
    return "self_device_time_total" if has_new_name else "self_cuda_time_total"


# ---------------------------------------------------------------------- torch_npu.profiler
class _NpuLevel(NamedTuple):
    """What a level means to torch_npu: the names of its ProfilerLevel and AiCMetrics, and what the CPU records."""

    detail: str
    metrics: str
    with_cpu: bool
    with_stack: bool


_NPU_LEVELS = (
    _NpuLevel("Level0", "AiCoreNone", with_cpu=False, with_stack=False),
    _NpuLevel("Level1", "PipeUtilization", with_cpu=True, with_stack=False),
    _NpuLevel("Level2", "PipeUtilization", with_cpu=True, with_stack=True),
)


def _npu_profiler(profiling: Profiling, rank: int) -> Profiler:
    from torch_npu import profiler

    level = _NPU_LEVELS[profiling.level]
    activity = profiler.ProfilerActivity
    opened: Profiler = profiler.profile(
        activities=[activity.CPU, activity.NPU] if level.with_cpu else [activity.NPU],
        schedule=_schedule(profiler, profiling),
        on_trace_ready=_Traces(
            profiling.path,
            rank,
            profiler.tensorboard_trace_handler(profiling.path, worker_name=f"rank{rank}"),
            npu_operator_table,
        ),
        record_shapes=level.with_cpu,
        with_stack=level.with_stack,
        experimental_config=profiler._ExperimentalConfig(
            profiler_level=getattr(profiler.ProfilerLevel, level.detail),
            aic_metrics=getattr(profiler.AiCMetrics, level.metrics),
        ),
    )
    return opened


def npu_operator_table(profiler: Any, trace: str) -> str:
    """The kernels that took longest, in microseconds, from the ``kernel_details.csv`` of a trace folder."""
    found = glob.glob(os.path.join(glob.escape(trace), "*_PROFILER_OUTPUT", "kernel_details.csv"))
    if not found:
        raise OSError(f"torch_npu wrote no kernel_details.csv into {os.path.basename(trace)}")
    totals: dict[str, list[float]] = {}
    with open(found[0], newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            total = totals.setdefault(row.get("Type") or row["Name"], [0.0, 0])
            total[0] += float(row["Duration(us)"])
            total[1] += 1
    rows = sorted(totals.items(), key=lambda item: -item[1][0])[:TOP_OPERATORS]
    lines = [f"{'Kernel':40} {'Total (us)':>14} {'Calls':>8} {'Mean (us)':>12}"]
    lines += [f"{name:40} {time:14.2f} {calls:8.0f} {time / calls:12.2f}" for name, (time, calls) in rows]
    return "\n".join(lines)


# ---------------------------------------------------------------------- both
def _schedule(profiler: Any, profiling: Profiling) -> Any:
    return profiler.schedule(
        wait=profiling.wait,
        warmup=profiling.warmup,
        active=profiling.active,
        repeat=profiling.cycles,
        skip_first=profiling.skip_first,
    )


def _distributed_rank(rank: int) -> int:
    """The rank in torch.distributed where that is set up: processes started by hand have none in the environment."""
    import torch.distributed as dist

    return dist.get_rank() if dist.is_available() and dist.is_initialized() else rank
