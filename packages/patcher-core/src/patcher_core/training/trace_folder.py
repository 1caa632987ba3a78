"""The folder of the traces: whether they can be written there, asked before the training starts."""

from __future__ import annotations

import os
import re

#: What torch_npu accepts (``PathManager._input_path_common_check`` of torch_npu 2.1 to 2.6): word characters of ASCII,
#: dots, slashes, hyphens, tildes, white space and CJK ideographs. Later versions pass any path on to the tools of CANN.
_REJECTED = re.compile(r"[^./_\-\s~0-9a-zA-Z\u4e00-\u9fa5]")

#: As much as a trace of a few steps of a small model takes.
_PROBE_BYTES = 1 << 20


def checked_characters(folder: str) -> str:
    """``folder``, which the NPU tools take; ValueError that names the characters which they reject."""
    rejected = sorted(set(_REJECTED.findall(folder)))
    if rejected:
        raise ValueError(
            f"the profiling path {folder!r} holds {' '.join(map(repr, rejected))}, which the NPU tools reject;"
            " use letters, digits and . _ - ~ /"
        )
    return folder


def prepare(folder: str) -> None:
    """Create ``folder`` and write to it, so that traces can be written later.

    Raises:
        OSError: of the kind of the cause; the text names the folder and what to do.
    """
    import tempfile

    try:
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(_PROBE_BYTES))
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as error:
        raise OSError(
            error.errno,
            f"cannot write traces: {error.strerror or error}; name another folder in with_profiling(path)",
            folder,
        ) from error
