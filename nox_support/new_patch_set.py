"""Writes a new patch set from the template beside this file.

    python -m nox -s new-patch-set -- NAME TARGET [--library DISTRIBUTION]

NAME becomes `patches-NAME` and `NAME_patches`. TARGET is the dotted path of the first attribute to patch, a function or
method. The library that it belongs to must be installed where this runs: its version becomes the first pin.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import re
import shutil
import sys
from pathlib import Path

import jinja2

TEMPLATE = Path(__file__).resolve().parent / "patch_set_template"
ROOT = TEMPLATE.parent.parent


def write_patch_set(name: str, target: str, library: str, version: str, packages: Path) -> Path:
    """Write `packages/patches-NAME` and return its folder.

    Raises ValueError for a name or target that cannot be meant, FileExistsError if the folder is there already; either
    way nothing is written.
    """
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        raise ValueError(f"NAME is {name!r}: write lower-case words joined by hyphens, such as detectron2")
    if not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", target):
        raise ValueError(f"TARGET is {target!r}: write the dotted path of a function, such as {name}.ops.nms")
    folder = packages / f"patches-{name}"
    if folder.exists():
        raise FileExistsError(f"{folder} exists: choose another name, or remove it")
    module = f"{name.replace('-', '_')}_patches"
    values = {
        "name": name,
        "distribution": folder.name,
        "module": module,
        "library": library,
        "root": target.partition(".")[0],
        "target": target,
        "version": version,
    }
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    for source in sorted(file for file in TEMPLATE.rglob("*") if file.is_file()):
        relative = Path(
            *(module if part == "MODULE" else part for part in source.relative_to(TEMPLATE).parts)
        )
        destination = folder / relative.with_name(relative.name.replace(".jinja", ""))
        destination.parent.mkdir(parents=True, exist_ok=True)
        text = environment.from_string(source.read_text(encoding="utf-8")).render(values)
        destination.write_text(text, encoding="utf-8")
    shutil.copy(ROOT / "LICENSE", folder / "LICENSE")
    return folder


def main() -> int:
    """Write the set that the command line describes; 1 and one sentence if that cannot be."""
    parser = argparse.ArgumentParser(prog="nox -s new-patch-set --", description=__doc__.splitlines()[0])
    parser.add_argument("name", metavar="NAME", help="patches-NAME is written into packages/")
    parser.add_argument(
        "target", metavar="TARGET", help="the first attribute to patch, such as cachetools.cached"
    )
    parser.add_argument("--library", metavar="DISTRIBUTION", help="default: the first part of TARGET")
    options = parser.parse_args()
    library = options.library or options.target.partition(".")[0]
    try:
        version = importlib.metadata.version(library)
        folder = write_patch_set(options.name, options.target, library, version, ROOT / "packages")
    except (ValueError, FileExistsError) as fault:
        print(fault, file=sys.stderr)
        return 1
    except importlib.metadata.PackageNotFoundError:
        print(f"{library} is not installed: name its distribution with --library", file=sys.stderr)
        return 1
    relative = folder.relative_to(ROOT)
    print(
        f"{relative} is written. Next: rename first_patch, say why, then python -m nox -s tests-{folder.name}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
