"""A call allocates at most the stated multiple of its arguments and results, on inputs of 100,000 boxes or megapixels.

Here images have one megapixel, and what takes long is given less. `docs/mmcv_operators.py --measure-memory` gives every
function four megapixels or 100,000 points or boxes, in a process whose data are limited to 4 GiB, as here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from mmcv_patches.extension import WORKING_MEMORY_BYTES, declared_functions

#: The two functions about the build.
WITHOUT_ARGUMENTS = {"get_compiler_version", "get_compiling_cuda_version"}
LONG = {
    "bezier_align_backward",
    "border_align_forward",
    "box_iou_quadri",
    "convex_giou",
    "convex_iou",
    "deform_conv_backward_input",
    "deform_conv_backward_parameters",
    "deform_conv_forward",
    "deform_roi_pool_backward",
    "deform_roi_pool_forward",
    "diff_iou_rotated_sort_vertices_forward",
    "get_indice_pairs_4d_forward",
    "iou3d_nms3d_forward",
    "iou3d_nms3d_normal_forward",
    "iou3d_nms_forward",
    "iou3d_nms_normal_forward",
    "modulated_deform_conv_backward",
    "modulated_deform_conv_forward",
    "nms_quadri",
    "nms_rotated",
    "prroi_pool_backward",
    "prroi_pool_coor_backward",
    "prroi_pool_forward",
    "riroi_align_rotated_backward",
    "riroi_align_rotated_forward",
    "roi_align_backward",
    "roi_align_forward",
    "roi_align_rotated_backward",
    "roi_align_rotated_forward",
    "roi_pool_forward",
    "rotated_feature_align_backward",
    "rotated_feature_align_forward",
}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the largest resident size is Linux's")


@pytest.mark.parametrize(
    ("names", "side", "count"),
    [(declared_functions().keys() - WITHOUT_ARGUMENTS - LONG, 1024, 100_000), (LONG, 512, 10_000)],
    ids=["quick functions, more", "slow functions, less"],
)
def test_a_call_allocates_no_more_than_its_declaration_says(names: set[str], side: int, count: int) -> None:
    # Freed memory must go back to the system at once, or a later call would not be seen to allocate.
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    command = [sys.executable, "-m", "large_inputs", str(side), str(count), *sorted(names)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=Path(__file__).parent)
    assert done.returncode == 0, done.stderr
    measured = [json.loads(line) for line in done.stdout.splitlines()]
    assert {one["name"] for one in measured} == names
    declared = declared_functions()
    too_much = [
        f"{one['name']}: {one['added']} MiB for {one['given']} MiB, declared {declared[one['name']].memory} x"
        for one in measured
        if one["added"] > declared[one["name"]].memory * one["given"] + WORKING_MEMORY_BYTES / 2**20
    ]
    assert not too_much, "\n".join(too_much)
