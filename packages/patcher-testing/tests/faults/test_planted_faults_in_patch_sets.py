"""Patch sets whose tests would notice a wrong replacement, and some whose tests would not."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

LIBRARY = """
def plane(board):
    return len(board) * 2.0

def cut(board):
    return board[:2]

class Saw:
    @staticmethod
    def sharpen(stone):
        stone.append("sharp")

def count(board):
    return len(board)

TEETH = 12
"""

PATCHES = """
from types import ModuleType

from patcher_core import AtomicPatch, ModulePatch, Patch, Value

def plane(board):
    return len(board) * 2.0

def cut(board):
    return board[:2]

def sharpen(stone):
    stone.append("sharp")

def counting(count):
    return lambda board: count(board)

def glue(one, other):
    return one + other

def make_glue():
    module = ModuleType("wooden_glue")
    module.glue = glue
    return module

class Plane(Patch):
    library = "wooden"

    @classmethod
    def patches(cls, options=None):
        return [AtomicPatch("wooden.plane", plane)]

class Saw(Patch):
    library = "wooden"

    @classmethod
    def patches(cls, options=None):
        return [
            AtomicPatch("wooden.cut", "wooden_patches.cut"),
            AtomicPatch("wooden.Saw.sharpen", sharpen),
            AtomicPatch("wooden.TEETH", Value(13)),
        ]

class Glue(Patch):
    library = "wooden"

    @classmethod
    def patches(cls, options=None):
        return [ModulePatch("wooden_glue", make_glue), AtomicPatch("wooden.count", target_wrapper=counting)]

class Workshop(Patch):
    library = "wooden"

    @classmethod
    def patches(cls, options=None):
        return [Plane, *Glue.patches(options)]

ALL = [Plane, Saw, Glue]
CATALOG = [*ALL, Workshop]
"""

TESTS = """
import pytest
import wooden
import wooden_patches
from patcher_core import Patcher

@pytest.fixture(params=[(wooden_patches.Plane, wooden_patches.Saw, wooden_patches.Glue), (wooden_patches.Workshop,)])
def patched(request):
    with Patcher().add(*request.param):
        yield

@pytest.fixture
def all_patched():
    with Patcher().add(*wooden_patches.ALL):
        yield

def test_plane(patched):
    assert wooden.plane("oak") == 6.0

def test_cut(all_patched):
    assert wooden.cut("oak") == "oa"

def test_sharpen(all_patched):
    stone = []
    wooden.Saw.sharpen(stone)
    assert stone == ["sharp"]

def test_teeth(all_patched):
    assert wooden.TEETH == 13

def test_glue(all_patched):
    import wooden_glue
    assert wooden_glue.glue("a", "b") == "ab"

def test_count(all_patched):
    assert wooden.count("oak") == 3
"""

PLANTED = """
from patcher_testing.faults import PlantedFaults

class TestPlantedFaults(PlantedFaults):
    groups = "wooden_patches:CATALOG"
    tests = ("test_wooden.py",)
"""


@pytest.fixture
def run_planted_faults(tmp_path):
    """Run the class on the patch set, with other texts in its files; what it printed."""

    def run(expected, **changes):
        texts = {"wooden": LIBRARY, "wooden_patches": PATCHES, "test_wooden": TESTS, "test_planted": PLANTED}
        (tmp_path / "pytest.ini").write_text("[pytest]\n")
        for name, text in texts.items():
            for old, new in changes.get(name, ()):
                assert old in text
                text = text.replace(old, new)
            (tmp_path / f"{name}.py").write_text(text)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rA", "test_planted.py"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])},
            capture_output=True,
            text=True,
        )
        assert f"1 {expected}" in done.stdout, done.stdout + done.stderr
        return done.stdout

    return run


def test_every_kind_of_replacement_is_made_wrong_and_found(run_planted_faults):
    said = run_planted_faults("passed")
    assert "7 of 7 faults turn a test red" in said
    assert "Saw: wooden.TEETH by Value(13): test_wooden.py::" in said
    assert "Workshop: its members: test_wooden.py::test_plane" in said


def test_a_replacement_whose_result_no_test_looks_at_is_named(run_planted_faults):
    said = run_planted_faults("failed", test_wooden=[("== 6.0", "> 0")])
    assert "Plane: wooden.plane by plane: wrong, and no test fails by an assertion" in said
    assert "test_wooden.py::test_plane" in said and "passes" in said


def test_a_replacement_that_no_test_calls_is_named(run_planted_faults):
    said = run_planted_faults("failed", test_wooden=[('assert wooden.cut("oak") == "oa"', "pass")])
    assert "Saw: wooden.cut by cut: no test that passes calls it" in said


def test_an_effect_that_is_nowhere_in_the_result_is_left_out(run_planted_faults):
    said = run_planted_faults("failed", test_wooden=[('assert stone == ["sharp"]', "")])
    assert "Saw: wooden.Saw.sharpen by sharpen: wrong" in said


def test_an_error_is_not_a_test_that_compares(run_planted_faults):
    said = run_planted_faults(
        "failed", test_wooden=[("assert wooden.plane", "{6.0: 1}[wooden.plane"), ("== 6.0", "]")]
    )
    assert "test_plane[patched0] breaks" in said and "KeyError" in said


def test_a_group_that_no_test_applies_is_named(run_planted_faults):
    said = run_planted_faults("failed", test_wooden=[(", (wooden_patches.Workshop,)", "")])
    assert "- Workshop: no test applies it" in said


def test_what_is_said_not_to_be_here_or_seen_must_be_so(run_planted_faults):
    said = run_planted_faults(
        "failed",
        test_planted=[
            ("tests =", 'not_here = {"Plane": "no plane"}\n    not_seen = {"Saw: *": "dark"}\n    tests =')
        ],
    )
    assert "- Plane: applied, although not_here says 'no plane'" in said
    assert "- Saw: *: not_seen says 'dark', but nothing of that name went unseen" in said


def test_tests_that_cannot_be_collected_are_shown(run_planted_faults):
    said = run_planted_faults("failed", test_wooden=[("import wooden\n", "import absent\n")])
    assert "No module named 'absent'" in said
