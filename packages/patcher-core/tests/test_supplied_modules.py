"""Modules that the installation lacks and a patch supplies, and what the report says of them."""

from __future__ import annotations

import importlib
import sys
import types

import pytest

from patcher_core import AtomicPatch, ModulePatch, Patch, Patcher


def supplied():
    module = types.ModuleType("anything")
    module.f = lambda: "supplied"
    return module


class OfAnotherLibrary(Patch):
    """Belongs to ``packaging``, whose version its pins find, and supplies what is no part of it."""

    library = "packaging"
    requires = ("packaging",)

    @classmethod
    def patches(cls, options=None):
        return [
            AtomicPatch("packaging.version.parse", lambda version: version),
            ModulePatch("supplied_library", supplied),
            ModulePatch("supplied_library.child", supplied),
        ]


@pytest.fixture
def patcher():
    patcher = Patcher().add(OfAnotherLibrary).apply()
    yield patcher
    patcher.restore()


def test_it_is_made_at_its_import_and_gone_after_restore(patcher):
    assert "supplied_library" not in sys.modules
    assert importlib.import_module("supplied_library.child").f() == "supplied"
    patcher.restore()
    assert not [name for name in sys.modules if name.startswith("supplied_library")]
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("supplied_library")


def test_it_is_shown_as_supplied_and_never_with_the_version_of_another_library(patcher):
    real, *of_supplied = patcher.report
    assert real.version
    assert [(result.module, result.reason, result.version) for result in of_supplied] == [
        ("supplied_library", "supplied", None)
    ] * 2
    assert "[supplied_library]\n" in str(patcher.report)
    assert "+ supplied_library.child (supplied)" in str(patcher.report)


def test_an_alias_in_another_library_does_not_get_the_version_either():
    class Renamed(Patch):
        library = "packaging"
        requires = ("packaging",)

        @classmethod
        def patches(cls, options=None):
            return [AtomicPatch("packaging.version.parse", len, aliases=["string.capwords"])]

    with Patcher().add(Renamed) as patcher:
        target, alias = patcher.report
        assert target.version and alias.module == "string"
        assert alias.version != target.version
