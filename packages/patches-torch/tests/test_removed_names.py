"""Names that numpy and the standard library removed; most in fresh interpreters, where every warning is an error."""

from __future__ import annotations

import builtins
import collections.abc

import pytest

from patcher_core import Patcher
from torch_patches import CollectionsCompat, NumpyCompat

MEANT = {
    "bool": "bool",
    "int": "int",
    "float": "float",
    "complex": "complex",
    "object": "object",
    "str": "str",
    "long": "int",
    "unicode": "str",
}

APPLY = """
import sys
from patcher_core import Patcher, configure_patcher_logging
from torch_patches import CollectionsCompat, NumpyCompat
configure_patcher_logging(level="ERROR")
"""


def test_every_alias_is_there_and_numpys_own_names_are_left_alone(run_python):
    pytest.importorskip("numpy", reason="these are patches of numpy")
    run_python(
        APPLY
        + f"""
import numpy
before = dict(vars(numpy))
patcher = Patcher().add(NumpyCompat).apply()
for name, meant in {MEANT}.items():
    expected = before.get(name, getattr(__builtins__, meant))
    assert getattr(numpy, name) is expected, (name, getattr(numpy, name))
if numpy.lib.NumpyVersion(numpy.__version__) >= "2.0.0":
    assert numpy.bool is numpy.bool_ and numpy.dtype(numpy.long).kind == "i"
assert numpy.zeros(2, dtype=numpy.float).dtype == numpy.float64
patcher.restore()
assert vars(numpy).keys() == before.keys()
assert all(value is before[name] for name, value in vars(numpy).items())
"""
    )


def test_a_lazy_apply_has_them_ready_for_the_importer(run_python):
    pytest.importorskip("numpy", reason="these are patches of numpy")
    run_python(
        APPLY
        + """
Patcher().add(NumpyCompat).apply(lazy=True)
assert "numpy" not in sys.modules
import program
assert program.made.dtype == "float64"
""",
        {"program.py": "import numpy as np\nmade = np.zeros(3, np.float)"},
    )


def test_other_groups_are_collected_after_it(run_python):
    pytest.importorskip("numpy", reason="these are patches of numpy")
    run_python(
        APPLY
        + """
from patcher_core import AtomicPatch, Patch

class UsesOldName(Patch):
    @classmethod
    def patches(cls, options=None):
        import old_model
        return [AtomicPatch("old_model.f", lambda: "new")]

Patcher().add(UsesOldName, NumpyCompat).apply()
import old_model
assert old_model.f() == "new"
""",
        {"old_model.py": "import numpy as np\ndtype = np.float\ndef f(): return 'old'"},
    )


def test_the_default_patcher_takes_it(run_python):
    pytest.importorskip("numpy", reason="these are patches of numpy")
    run_python(
        """
        from patcher_core import configure_patcher_logging, default_patcher
        configure_patcher_logging(level="ERROR")
        default_patcher.apply(lazy=True)
        import numpy
        assert numpy.float is float
        """
    )


def test_abstract_base_classes_are_found_in_collections(run_python):
    run_python(
        APPLY
        + """
import collections
before = set(vars(collections))
patcher = Patcher().add(CollectionsCompat).apply()
from collections import Callable, Iterable, Mapping, MutableMapping
import collections.abc
assert Iterable is collections.abc.Iterable and MutableMapping is collections.abc.MutableMapping
assert isinstance({}, collections.Mapping)
patcher.restore()
assert set(vars(collections)) == before
"""
    )


@pytest.mark.parametrize("name", MEANT)
def test_an_alias_is_what_it_meant(name):
    numpy = pytest.importorskip("numpy", reason="these are patches of numpy")
    expected = vars(numpy).get(name, getattr(builtins, MEANT[name]))
    with Patcher().add(NumpyCompat):
        assert getattr(numpy, name) is expected


def test_the_abstract_classes_are_those_of_collections_abc():
    with Patcher().add(CollectionsCompat):
        for name in vars(collections.abc).keys() & {*CollectionsCompat.names}:
            assert getattr(collections, name) is vars(collections.abc)[name]
