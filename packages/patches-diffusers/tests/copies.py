"""Every copy, in the installed diffusers, of the code that a structural patch is about."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import NamedTuple

from patcher_core.fingerprints import definitions


class Copy(NamedTuple):
    module: str
    qualname: str
    fingerprint: str

    @property
    def owner(self):
        """What holds it: the module, or a class in it."""
        owner = importlib.import_module(self.module)
        for name in self.qualname.split(".")[:-1]:
            owner = getattr(owner, name)
        return owner

    @property
    def name(self) -> str:
        return self.qualname.rpartition(".")[2]

    @property
    def function(self):
        return vars(self.owner)[self.name]


def copies(patch) -> list[Copy]:
    """All of them in diffusers' models; no module is imported for it."""
    root = Path(importlib.util.find_spec("diffusers").origin).parent
    found = []
    for file in sorted(root.glob("models/**/*.py")):
        if "flax" in file.name:
            continue
        module = ".".join(("diffusers", *file.relative_to(root).with_suffix("").parts))
        found += [
            Copy(module, one.qualname, one.fingerprint)
            for one in definitions(file.read_text(encoding="utf-8"), patch.names)
        ]
    return found
