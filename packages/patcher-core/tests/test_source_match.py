"""One entry for every copy of the same code; a copy that drifted is left alone and named."""

from __future__ import annotations

import textwrap

import pytest

from patcher_core import Form, SourceMatchPatch

NORM = '''
class {name}:
    def __init__(self, eps): self.eps = eps
    def forward(self, x):
        """Each file documents it its own way: {name}."""
        return half(x) + self.eps  # {name}
def half(x):
    return {half}
'''
FILES = {
    "copies/__init__.py": "",
    "copies/a/modeling_a.py": NORM.format(name="ANorm", half="x / 2"),
    "copies/b/modeling_b.py": NORM.format(name="BNorm", half="x / 2"),
    "copies/drifted/modeling_c.py": NORM.format(name="CNorm", half="x / 2.0"),
    "copies/other/helpers.py": NORM.format(name="DNorm", half="x / 2"),
    "copies/decorated/modeling_e.py": (
        "def deco(f):\n    def inner(*a): return f(*a)\n    return inner\n"
        + NORM.format(name="ENorm", half="x / 2").replace("    def forward", "    @deco\n    def forward")
    ),
}
PROGRAM = """
import sys, types
from patcher_core import Form, Patcher, SourceMatchPatch
from patcher_core.fingerprints import definitions

known = definitions(open(sys.path[0] + "/src/copies/a/modeling_a.py").read(), "*Norm.forward")[0].fingerprint

def new(self, x):
    return ("new", x)

def patch(**kwargs):
    return SourceMatchPatch("copies.*.modeling_*", "*Norm.forward", matches={known: new}, **kwargs)

def lines(patcher):
    return {r.name: (r.status.value, r.reason) for r in patcher.report}
"""


@pytest.fixture
def run(run_python):
    return lambda code: run_python(PROGRAM + textwrap.dedent(code), FILES)


@pytest.mark.parametrize("lazy", [False, True])
def test_known_copies_are_patched_when_they_are_imported_and_nothing_is_imported_for_it(run, lazy):
    run(
        f"""
        p = Patcher().add(patch()).apply(lazy={lazy})
        assert "copies" not in sys.modules
        assert lines(p)["copies.*.modeling_*:*Norm.forward"][0] == "pending"
        from copies.a.modeling_a import ANorm
        from copies.b.modeling_b import BNorm
        from copies.other.helpers import DNorm
        assert ANorm(1).forward(2) == BNorm(1).forward(2) == ("new", 2) and DNorm(1).forward(2) == 2.0
        assert lines(p) == {{
            "copies.a.modeling_a.ANorm.forward": ("applied", ""), "copies.b.modeling_b.BNorm.forward": ("applied", "")}}
        p.restore()
        assert ANorm(1).forward(2) == BNorm(1).forward(2) == 2.0
        """
    )


def test_modules_imported_before_are_patched_at_once(run):
    run(
        """
        from copies.a.modeling_a import ANorm
        with Patcher().add(patch()):
            assert ANorm(1).forward(2) == ("new", 2)
        assert ANorm(1).forward(2) == 2.0
        """
    )


def test_a_copy_whose_helper_drifted_is_left_alone_and_named(run):
    run(
        """
        p = Patcher().add(patch()).apply()
        from copies.drifted.modeling_c import CNorm
        assert CNorm(1).forward(2) == 2.0
        status, reason = lines(p)["copies.drifted.modeling_c.CNorm.forward"]
        assert status == "skipped" and "not a known one" in reason
        """
    )


def test_a_known_form_can_be_left_alone_with_a_reason(run):
    run(
        """
        p = Patcher().add(SourceMatchPatch("copies.*.modeling_*", "*Norm.forward", matches={},
                                           left_alone={known: "it is used for something else"})).apply()
        import copies.a.modeling_a
        assert lines(p)["copies.a.modeling_a.ANorm.forward"] == ("skipped", "left alone: it is used for something else")
        """
    )


def test_a_decorated_copy_is_left_alone(run):
    run(
        """
        p = Patcher().add(patch()).apply()
        from copies.decorated.modeling_e import ENorm
        assert ENorm(1).forward(2) == 2.0
        assert "decorator" in lines(p)["copies.decorated.modeling_e.ENorm.forward"][1]
        """
    )


def test_forms_may_check_at_run_time(run):
    run(
        """
        form = Form(new, runtime_check=lambda self, x: self.eps > 3)
        Patcher().add(SourceMatchPatch("copies.*.modeling_*", "*Norm.forward", matches={known: form})).apply()
        from copies.a.modeling_a import ANorm
        assert ANorm(1).forward(2) == 2.0 and ANorm(4).forward(2) == ("new", 2)
        """
    )


def test_a_reload_is_looked_at_again(run):
    run(
        """
        import importlib
        p = Patcher().add(patch()).apply()
        import copies.a.modeling_a as module
        importlib.reload(module)
        assert module.ANorm(1).forward(2) == ("new", 2)
        p.restore()
        assert module.ANorm(1).forward(2) == 2.0
        """
    )


def test_a_module_without_source_is_left_alone_and_named(run):
    run(
        """
        import copies
        module = types.ModuleType("copies.x.modeling_x")
        sys.modules["copies.x.modeling_x"] = module
        p = Patcher().add(patch()).apply()
        assert "no source" in lines(p)["copies.x.modeling_x"][1]
        """
    )


def test_wrong_arguments_are_named():
    good = {"modules": "copies.*", "names": "*.forward", "matches": {"ab": len}}
    for argument, value, error in [
        ("modules", 3, TypeError),
        ("modules", "", ValueError),
        ("modules", "*.modeling", ValueError),
        ("names", None, TypeError),
        ("matches", "abc", TypeError),
        ("matches", 3, TypeError),
        ("matches", {"ab": Form(None)}, ValueError),
    ]:
        with pytest.raises(error):
            SourceMatchPatch(**{**good, argument: value})
    with pytest.raises(ValueError, match="either"):
        SourceMatchPatch(**good, replacement=len)
