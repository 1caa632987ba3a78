"""mmdet and mmdet3d refuse mmcv versions that their release did not know; ensure_mmcv_version gets them imported."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import textwrap

import pytest

from patcher_core import get_version

mmcv_patches = pytest.importorskip("mmcv_patches")

#: mmcv that every version of the library refuses and accepts, by its generation
VERSIONS = {
    ("mmdet", "1"): ("1.9.0", "1.4.0"),
    ("mmdet3d", "1"): ("1.9.0", "1.7.0"),
    ("mmdet", "2"): ("2.2.0", "2.0.0"),
    ("mmdet3d", "2"): ("2.2.0", "2.0.0"),
}


def mmcv_generation() -> str:
    return str(mmcv_patches.mmcv_version.version)[0]


@pytest.mark.parametrize("library", ["mmdet", "mmdet3d"])
def test_a_refused_mmcv_is_accepted_while_it_shows_another_version(library) -> None:
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed in this environment")
    refused, accepted = VERSIONS[library, mmcv_generation()]
    script = f"""
        import mmcv, mmcv_patches
        mmcv.__version__ = {refused!r}
        try:
            import {library}
        except AssertionError as error:
            print("refused:", error)
        mmcv_patches.ensure_mmcv_version({accepted!r})
        import {library}
        print({library}.__version__, mmcv.__version__)
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    refusal, last = (
        line for line in done.stdout.splitlines() if line.startswith(("refused:", get_version(library)))
    )
    assert f"MMCV=={refused} is used but incompatible" in refusal
    assert last == f"{get_version(library)} {refused}"


@pytest.mark.skipif(
    mmcv_patches.mmcv_version.version != "2.2.0", reason="the installed mmcv is one that mmdet accepts"
)
def test_on_an_mmcv_that_mmdet_really_refuses_a_patched_detector_can_be_built() -> None:
    script = """
        import mmcv_patches, mmdet_patches
        from patcher_core import Patcher
        Patcher().add(*mmcv_patches.DEFAULT).apply()
        mmcv_patches.ensure_mmcv_version("2.1.0")
        patcher = Patcher().add(mmdet_patches.PseudoSampler, mmdet_patches.ResNetFP16).apply()
        from mmdet.models import ResNet
        import mmcv
        print(len(patcher.report.applied), type(ResNet(18)).__name__, mmcv.__version__)
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].endswith("ResNet 2.2.0")
