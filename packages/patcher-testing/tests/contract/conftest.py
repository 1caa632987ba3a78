"""A library with a user, a sound patch set for it, and unsound ones: real distributions in a folder on sys.path."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

LIBRARY = """
def plane(board, depth=1):
    return ("planed", board, depth)

class Saw:
    def cut(self, board):
        return ("cut", board)

    @staticmethod
    def sharpen():
        return "sharp"

TOOLS = {"saw": Saw}
"""

USER = """
from wooden import plane as smooth
from wooden import Saw
"""

PATCHES = """
from types import ModuleType

from patcher_core import AtomicPatch, ModulePatch, Patch, keep

keep("wooden_user.kept_plane")

def plane(board, depth=1):
    return ("planed by hand", board, depth)

def cut(self, board):
    return ("cut by hand", board)

def sharpen():
    return "very sharp"

class Plane(Patch):
    library = "wooden"
    why = "planing needs electricity"
    upstream = "https://wooden.example/issues/1"
    legacy_name = "plane_1_0"

    @classmethod
    def patches(cls, options=None):
        return [AtomicPatch("wooden.plane", plane)]

class Saw(Patch):
    library = "wooden"
    why = "sawing needs electricity"
    upstream = "https://wooden.example/issues/2"

    @classmethod
    def patches(cls, options=None):
        return [AtomicPatch("wooden.Saw.cut", cut), AtomicPatch("wooden.Saw.sharpen", sharpen)]

class Glue(Patch):
    library = "wooden"
    why = "the glue of wooden is sold apart"
    upstream = "https://wooden.example/issues/3"

    @classmethod
    def patches(cls, options=None):
        return [ModulePatch("wooden_glue", lambda: ModuleType("wooden_glue"))]

CATALOG = ALL = DEFAULT = [Plane, Saw, Glue]
LEGACY = {}
"""

UNSOUND = """
import wooden
from patcher_core import AtomicPatch, Patch

ORIGINAL = wooden.plane

class Good(Patch):
    library = "wooden"
    why = upstream = "stated"

class WritesByItself(Good):
    '''Replaces an attribute behind the engine's back, each time it is asked.'''
    @classmethod
    def patches(cls, options=None):
        wooden.Saw.cut = lambda self, board: "written"
        return [AtomicPatch("wooden.plane", lambda board, depth=1: None), AtomicPatch("wooden.Saw.cut", cut)]

def cut(self, board):
    return "cut"

class NotPicklable(Good):
    @classmethod
    def patches(cls, options=None):
        return [AtomicPatch("wooden.plane", lambda board, depth=1: None)]

class WithoutDepth(Good):
    @classmethod
    def patches(cls, options=None):
        return [AtomicPatch("wooden.plane", without_depth)]

def without_depth(board):
    return board

class NotRebound(Good):
    @classmethod
    def patches(cls, options=None):
        return [AtomicPatch("wooden.plane", plane, rebind=False)]

def plane(board, depth=1):
    return board

class Undeclared(Patch):
    @classmethod
    def patches(cls, options=None):
        return [AtomicPatch("wooden.plane", plane)]

class SameName(Undeclared):
    name = "Undeclared"
    why = upstream = library = "wooden"

class Ineffective(Good):
    @classmethod
    def patches(cls, options=None):
        return [AtomicPatch("wooden.lathe", plane)]

class Dies(Good):
    @classmethod
    def patches(cls, options=None):
        import os, sys
        print("out of wood", file=sys.stderr, flush=True)
        os._exit(7)

class WithoutPins(Good):
    library = ""
    @classmethod
    def patches(cls, options=None):
        return [AtomicPatch("wooden.plane", plane)]

WRITES_BY_ITSELF = [WritesByItself]
NOT_PICKLABLE = [NotPicklable]
WITHOUT_DEPTH = [WithoutDepth]
NOT_REBOUND = [NotRebound]
UNDECLARED = [Undeclared, SameName]
INEFFECTIVE = [Ineffective]
WITHOUT_PINS = [WithoutPins]
DIES = [Dies]
"""

METADATA = "Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{more}"
PINS = "Provides-Extra: upstream\nRequires-Dist: wooden>=1,<2; extra == 'upstream'\n"


def _install(
    folder: Path, name: str, version: str, modules: dict[str, str], more: str = "", entry_points: str = ""
):
    for module, text in modules.items():
        (folder / f"{module}.py").write_text(textwrap.dedent(text))
    dist_info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    dist_info.mkdir()
    (dist_info / "METADATA").write_text(METADATA.format(name=name, version=version, more=more))
    (dist_info / "RECORD").write_text("".join(f"{module}.py,,\n" for module in modules))
    (dist_info / "entry_points.txt").write_text(entry_points)


@pytest.fixture(scope="module", autouse=True)
def installed_libraries(tmp_path_factory):
    folder = tmp_path_factory.mktemp("installed")
    _install(folder, "wooden", "1.5", {"wooden": LIBRARY, "wooden_user": USER})
    entry_points = "[patcher.patch_sets]\nwooden = {}\n"
    _install(
        folder,
        "wooden-patches",
        "1.0",
        {"wooden_patches": PATCHES},
        PINS,
        entry_points.format("wooden_patches"),
    )
    _install(folder, "unsound-patches", "1.0", {"unsound_patches": UNSOUND})
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield folder
