"""Profile the training program beside this file, and end it as soon as the last trace is written."""

import runpy
from pathlib import Path

from patcher_core import Patcher

# 5 steps are left alone; then, twice, one is waited for, one warms the profiler up, and two are recorded.
Patcher().with_profiling("traces", level=1, skip_first=5, active=2, repeat=1).brake_at().apply()

runpy.run_path(str(Path(__file__).with_name("train.py")), run_name="__main__")
