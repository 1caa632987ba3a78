"""Random histories of several patchers over real modules: after the last restore, everything is the very object it was.

``PATCHER_HISTORY_STEPS=100000`` runs that many steps; the default is a small budget.
"""

from __future__ import annotations

import importlib
import os
import sys
import textwrap
import types

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from patcher_core import AtomicPatch, Patch, Patcher

STEPS_PER_HISTORY = 50
HISTORIES = max(1, int(os.environ.get("PATCHER_HISTORY_STEPS", "1500")) // STEPS_PER_HISTORY)

MODULES = ("hist_a.one", "hist_a.two", "hist_b", "hist_a")
USERS = {"hist_user_one": "hist_a.one", "hist_user_b": "hist_b"}
SOURCE = """
def f(x=0): return ("old f", __name__)
def g(x=0): return ("old g", __name__)
class C:
    def method(self, x=0): return "old method"
    @staticmethod
    def static(x=0): return "old static"
    @classmethod
    def make(cls, x=0): return "old make"
    @property
    def prop(self): return "old prop"
class D(C): pass
class Registry:
    def __init__(self): self.table = {"key": f}
registry = Registry()
import hist_record
hist_record.executed(__name__, globals())
"""
#: Paths within a module, and how to find what is stored there.
NAMES = (
    "f",
    "g",
    "C",
    "C.method",
    "C.static",
    "C.make",
    "C.prop",
    "D.method",
    "D.static",
    "registry.table.key",
)


def stored(namespace, name):
    """The raw object stored at ``name``; None where nothing is stored."""
    if name == "registry.table.key":
        return namespace["registry"].table.get("key")
    owner, _, attribute = name.rpartition(".")
    return (vars(namespace[owner]) if owner else namespace).get(attribute)


def replacement(x=0):
    return "new"


def always(*args):
    return True


def wrap(original):
    def wrapped(*args, **kwargs):
        return ("wrapped", original(*args, **kwargs))

    return wrapped


def one_of_its_own(place):
    """A replacement that is no attribute of any module, another one for each place."""
    if place[1] == "C":
        return type("New", (), {"__module__": "hist_replacements"})
    made = types.FunctionType(replacement.__code__, {"__name__": "hist_replacements"}, "new", (0,))
    MADE.add(made)
    return made


MADE = set()
KINDS = {
    "replace": lambda place: {"replacement": one_of_its_own(place)},
    "share": lambda place: {"replacement": replacement},
    "check": lambda place: {"replacement": replacement, "runtime_check": always},
    "wrap": lambda place: {"target_wrapper": wrap},
    "unresolvable": lambda place: {"replacement": "no_such_module_anywhere.thing"},
    "broken": lambda place: {"target_wrapper": lambda original: 1 / 0},
}
PATCHERS = st.integers(0, 2)
PLACES = st.tuples(st.sampled_from(MODULES), st.sampled_from(NAMES))


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """The modules that the histories play on, as real files."""
    root = tmp_path_factory.mktemp("histories")
    (root / "hist_a").mkdir()
    for name in ("hist_a/__init__.py", "hist_a/one.py", "hist_a/two.py", "hist_b.py"):
        (root / name).write_text(textwrap.dedent(SOURCE))
    for user, module in USERS.items():
        (root / f"{user}.py").write_text(f"from {module} import f, f as renamed, C\n")
    sys.path.insert(0, str(root))
    yield
    sys.path.remove(str(root))


class Histories(RuleBasedStateMachine):
    @initialize()
    def start(self):
        self.originals = {}
        self.foreign = {}
        self.finders = list(sys.meta_path)
        record = types.ModuleType("hist_record")
        record.executed = self.executed
        sys.modules["hist_record"] = record
        self.patchers = [Patcher(), Patcher(), Patcher()]

    def executed(self, module, namespace):
        """A module has run: these are its originals, and what others wrote into the module before is gone."""
        self.originals[module] = {name: stored(namespace, name) for name in NAMES}
        self.foreign = {place: value for place, value in self.foreign.items() if place[0] != module}

    @rule(patcher=PATCHERS, place=PLACES, kind=st.sampled_from(sorted(KINDS)))
    def add(self, patcher, place, kind):
        self.patchers[patcher].add(AtomicPatch(".".join(place), **KINDS[kind](place)))

    @rule(patcher=PATCHERS, places=st.lists(PLACES, min_size=1, max_size=3))
    def add_group(self, patcher, places):
        class Group(Patch):
            @classmethod
            def patches(cls, options=None):
                return [
                    AtomicPatch(".".join(place), one_of_its_own(place), aliases=["hist_b.g"])
                    for place in places
                ]

        self.patchers[patcher].add(Group)

    @rule(patcher=PATCHERS, place=PLACES)
    def disable(self, patcher, place):
        self.patchers[patcher].disable(".".join(place))

    @rule(patcher=PATCHERS, lazy=st.booleans())
    def apply(self, patcher, lazy):
        self.patchers[patcher].apply(lazy=lazy)

    @rule(patcher=PATCHERS)
    def restore(self, patcher):
        self.patchers[patcher].restore()

    @rule(name=st.sampled_from([*MODULES, *USERS]))
    def import_module(self, name):
        importlib.import_module(name)

    @rule(name=st.sampled_from(MODULES))
    def reload(self, name):
        if name in sys.modules:
            importlib.reload(sys.modules[name])

    @rule(place=PLACES)
    def foreign_write(self, place):
        module, name = place
        if module not in sys.modules or (name.startswith(("C", "D")) and name != "C"):
            return
        value = types.FunctionType(replacement.__code__, {}, "foreign")
        if name == "registry.table.key":
            sys.modules[module].registry.table["key"] = value
        elif name != "C":
            setattr(sys.modules[module], name, value)
            self.foreign[place] = value
            return
        else:
            return
        self.foreign[place] = value

    @invariant()
    def reports_can_be_read(self):
        for patcher in getattr(self, "patchers", ()):
            assert str(patcher.report) is not None

    def teardown(self):
        if not hasattr(self, "patchers"):
            return
        try:
            for patcher in self.patchers:
                patcher.restore()
            for module, originals in self.originals.items():
                namespace = vars(sys.modules[module])
                for name, original in originals.items():
                    if name.startswith(("C.", "D.")) and (module, "C") in self.foreign:
                        continue
                    expected = self.foreign.get((module, name), original)
                    assert stored(namespace, name) is expected, f"{module}.{name}"
            for user in USERS:
                # What several targets share may be held under yet another name for reasons of its own.
                for name in ("f", "C") if user in sys.modules else ():
                    held = vars(sys.modules[user])[name]
                    assert held not in MADE and held.__module__ != "hist_replacements", f"{user}.{name}"
                    if name != "C":
                        assert held.__code__.co_name not in ("wrapped", "dispatch"), f"{user}.{name}"
            assert sys.meta_path == self.finders
        finally:
            for name in [*MODULES, *USERS, "hist_record"]:
                sys.modules.pop(name, None)


def test_after_the_last_restore_everything_is_the_very_object_it_was(packages, caplog):
    caplog.set_level("CRITICAL", logger="patcher_core")
    run_state_machine_as_test(
        Histories,
        settings=settings(
            max_examples=HISTORIES,
            stateful_step_count=STEPS_PER_HISTORY,
            deadline=None,
            derandomize="PATCHER_HISTORY_STEPS" not in os.environ,
            print_blob=True,
            phases=[Phase.generate] if os.environ.get("NOSHRINK") else list(Phase),
            suppress_health_check=list(HealthCheck),
        ),
    )
