"""Reads the operator schemas of torch_npu wheels without importing them, and writes the table beside this file.

    python -m patcher_testing.schemas.extract WHEEL_OR_FOLDER ... > torch_npu_schemas.txt

A schema is the text that the library registers (`m.def("npu_rms_norm(Tensor input, ...) -> ...")`): a string constant
of libtorch_npu.so. The yaml files in a wheel are no source: in 2.13.0 137 of their 419 entries differ from what is
registered.
"""

from __future__ import annotations

import argparse
import re
import sys
import zipfile
from pathlib import Path
from typing import Mapping, Sequence

from .table import SchemaTable, format_table

LIBRARY = "torch_npu/lib/libtorch_npu.so"

#: A whole string constant of the form `name.overload(arguments) -> results`.
_SCHEMA = re.compile(
    rb"(?<=\x00)(?:npu::)?([a-z_]\w*(?:\.\w+)?)(\((?:(?:\*, )?(?:%s)\b[^\x00-\x1f]*)?\) -> [^\x00-\x1f]+)(?=\x00)"
    % b"|".join(
        b"Tensor int float bool str Scalar SymInt Device Generator ScalarType Storage Layout Stream Dimname".split()
    )
)


def read_library(wheel: Path) -> tuple[str, bytes]:
    """Version and libtorch_npu.so of a wheel, or of the folder that one was unpacked or installed into.

    Raises:
        FileNotFoundError: it holds no torch_npu.
    """
    if wheel.is_dir():
        metadata = next(wheel.glob("torch_npu-*.dist-info/METADATA"), None)
        if metadata is None:
            raise FileNotFoundError(f"no torch_npu in {wheel}")
        return _version(metadata.parent.name), (wheel / LIBRARY).read_bytes()
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata_name = next(
            (name for name in names if re.match(r"torch_npu-.*\.dist-info/METADATA", name)), None
        )
        if metadata_name is None:
            raise FileNotFoundError(f"no torch_npu in {wheel}")
        return _version(metadata_name.partition("/")[0]), archive.read(LIBRARY)


def _version(dist_info: str) -> str:
    return dist_info[len("torch_npu-") : -len(".dist-info")]


def schemas_in(library: bytes) -> set[str]:
    """Schema texts without a namespace, `npu_x(Tensor input) -> Tensor`.

    Those that take torch_npu's own classes (process groups) belong to other namespaces and are left out.
    """
    texts = ((name + rest).decode().rstrip() for name, rest in _SCHEMA.findall(library))
    return {text for text in texts if "__torch__" not in text}


def extract(wheels: Sequence[Path]) -> SchemaTable:
    """The schemas of several wheels as one table, versions in the given order."""
    found: Mapping[str, set[str]] = {
        version: schemas_in(library) for version, library in map(read_library, wheels)
    }
    return SchemaTable(found)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m patcher_testing.schemas.extract", description=__doc__)
    parser.add_argument(
        "wheel", nargs="+", type=Path, help="torch_npu wheels or folders, in the order of the columns"
    )
    sys.stdout.write(format_table(extract(parser.parse_args(arguments).wheel)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
