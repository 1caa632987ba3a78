"""`train.py` with the patches for transformers: two lines before everything else."""

from __future__ import annotations

import runpy
from pathlib import Path

import transformers_patches
from patcher_core import Patcher

patcher = Patcher().add(*transformers_patches.ALL).apply()

runpy.run_path(str(Path(__file__).with_name("train.py")), run_name="__main__")
print(patcher.report)
