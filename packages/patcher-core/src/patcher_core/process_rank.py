"""Which of the processes of a training this one is: its rank, and whether another one started it as a worker."""

from __future__ import annotations

import os
import sys

#: Environment variables that carry a process's rank, in the order in which they are asked:
#: torchrun, Open MPI, MPICH/PMI, Slurm.
RANK_VARIABLES = ("RANK", "LOCAL_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")


def rank_from_environment() -> int:
    """The first rank that a launcher put into the environment; 0 where none did."""
    for variable in RANK_VARIABLES:
        text = os.environ.get(variable, "").strip()
        if text.isdigit():
            return int(text)
    return 0


def is_worker_process() -> bool:
    """True in a child started by :mod:`multiprocessing`: its parent has already said everything once."""
    process = sys.modules.get("multiprocessing.process")
    if process is None:
        return False
    starting = getattr(process.current_process(), "_inheriting", False)
    return bool(starting or process.parent_process() is not None)
