"""ensure_mmcv_version, with the check that mmdet makes when it is imported; each in a process of its own."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import textwrap

import pytest

if importlib.util.find_spec("mmcv") is None:
    pytest.skip("mmcv is not installed in this environment", allow_module_level=True)

import mmcv_patches

has_mmdet = pytest.mark.skipif(
    importlib.util.find_spec("mmdet") is None, reason="mmdet is not installed here"
)


def run(script):
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


@has_mmdet
def test_mmdet_sees_the_version_and_afterwards_it_is_the_real_one_again() -> None:
    lines = run("""
        import mmcv, mmcv_patches
        from patcher_core import Patcher
        real = mmcv.__version__
        shown = ".".join(map(str, mmcv.version_info[:2])) + ".0"
        with Patcher().add(mmcv_patches.PortableExtension):
            mmcv_patches.ensure_mmcv_version(shown)
            import mmdet
            print(mmdet.mmcv_version == mmdet.digit_version(shown), mmcv.__version__ == real)
    """)
    assert lines == ["True True"]


@has_mmdet
def test_a_version_that_mmdet_refuses_is_named_in_a_warning() -> None:
    lines = run("""
        import logging, sys
        import mmcv, mmcv_patches
        logging.basicConfig(stream=sys.stdout)
        real = mmcv.__version__
        mmcv_patches.patch_mmcv_version("99.0.0")
        print(mmcv.__version__ == real, "mmdet" in sys.modules)
    """)
    assert lines[-1] == "True False"
    assert any("mmdet does not import with mmcv 99.0.0 shown to it: AssertionError" in line for line in lines)


def test_a_version_that_is_not_text_is_refused() -> None:
    with pytest.raises(TypeError, match="expected_version must be text"):
        mmcv_patches.ensure_mmcv_version(2.1)
