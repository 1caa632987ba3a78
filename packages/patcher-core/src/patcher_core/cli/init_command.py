"""``patcher init``: a ``migrate_to_ascend/`` folder for a model's repository."""

from __future__ import annotations

import argparse
import os

from ..discovery import patch_sets
from ..distributions import find_distribution
from . import OK, CommandError
from .output import output

FOLDER = "migrate_to_ascend"
_TEMPLATES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "skeleton")
_EXECUTABLE = ("train_8p.sh",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("repository", nargs="?", default=".", help="the model's repository (default: here)")


def carry_out(options: argparse.Namespace) -> int:
    if not os.path.isdir(options.repository):
        raise CommandError(f"{options.repository} is no folder; name the model's repository")
    folder = os.path.join(options.repository, FOLDER)
    os.makedirs(folder, exist_ok=True)
    out = output()
    for name, text in skeleton().items():
        path = os.path.join(folder, name)
        out.line(f"{'wrote' if _write_new(path, text) else 'left alone, it is there already:'} {path}")
    out.line(
        f"next: name the model's patches in {os.path.join(folder, 'patch.py')}, then `python {FOLDER}/train.py`"
    )
    return OK


def skeleton() -> dict[str, str]:
    """The text of every file, by name."""
    files = {"requirements.txt": _requirements()}
    for template in sorted(os.listdir(_TEMPLATES)):
        with open(os.path.join(_TEMPLATES, template), encoding="utf-8") as stream:
            files[template[: -len(".txt")]] = stream.read()
    return files


def _requirements() -> str:
    """The patcher and the patch sets that are installed here, in versions compatible with those."""
    core = find_distribution("patcher-core")
    installed = [patch_set.distribution for patch_set in patch_sets()]
    return "".join(
        f"{distribution.name}~={distribution.version}\n"
        for distribution in ([core] if core else []) + installed
    )


def _write_new(path: str, text: str) -> bool:
    """Write a file that is not there; gives back whether it was not."""
    try:
        with open(path, "x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        return False
    if path.endswith(_EXECUTABLE):
        os.chmod(path, 0o755)
    return True
