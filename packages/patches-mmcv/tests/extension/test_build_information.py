"""What environment reports print."""

from __future__ import annotations


def test_reports_say_that_nothing_was_compiled(extension):
    assert extension.get_compiler_version() == "not compiled: plain PyTorch operators of patches-mmcv"


def test_the_cuda_version_is_that_of_an_extension_without_cuda(extension, compiled):
    assert extension.get_compiling_cuda_version() == compiled.get_compiling_cuda_version() == "not available"
