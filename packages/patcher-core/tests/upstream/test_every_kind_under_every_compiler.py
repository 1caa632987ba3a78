"""Every kind of installed function, at every kind of target, through every compiler of torch.

What a compiler refuses is refused for the same function written by hand: :data:`BY_HAND` shows it.
"""

from __future__ import annotations

import importlib
import itertools
import sys
import textwrap

import pytest
import torch

from patcher_core import AtomicPatch, Patcher

torch.set_num_threads(1)

#: torch calls torch.jit deprecated from 2.13 on; models still use it.
#: Dynamo of torch 2.1 reads what torch 2.1 calls deprecated; later ones find Python 3.13.0 slow.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit.*deprecated"),
    pytest.mark.filterwarnings("ignore:'has_.*' is deprecated:UserWarning"),
    pytest.mark.filterwarnings("ignore:Guards may run slower on Python:RuntimeWarning"),
]

UPSTREAM = """
    import torch

    def scaled(x):
        return x * 2.0

    class OfFunction(torch.nn.Module):
        def forward(self, x):
            return scaled(x) + 1.0

    class OfMethod(torch.nn.Module):
        def scaled(self, x):
            return x * 2.0

        def forward(self, x):
            return self.scaled(x) + 1.0

    class OfStaticMethod(torch.nn.Module):
        @staticmethod
        def scaled(x):
            return x * 2.0

        def forward(self, x):
            return self.scaled(x) + 1.0

    class OfClassMethod(torch.nn.Module):
        @classmethod
        def scaled(cls, x):
            return x * 2.0

        def forward(self, x):
            return self.scaled(x) + 1.0
"""

#: What replaces it. All are "scaled": torch.jit.script wants a method to be named as the attribute that holds it.
NEW = """
    import torch
    from patcher_core import with_imports

    IS_WANTED = True

    def is_long({first}x):
        return x.shape[0] > 3

    def is_wanted({first}x):
        return IS_WANTED

    def scaled({first}x):
        return torch.sin(x)

    def tripled(function):
        def wrapped({first}x):
            return function({first}x) * 3.0
        return wrapped

    def lending():
        @with_imports(("torch", "sin"))
        def scaled({first}x):
            return sin(x)
        return scaled

    def otherwise_named({first}x):
        return torch.sin(x)

    def tripled_by_its_name(scaled):
        def wrapped({first}x):
            return scaled({first}x) * 3.0
        return wrapped

    def checked_by_hand(original):
        def by_hand({first}x):
            if is_long({first}x):
                return replacement({first}x)
            return original({first}x)
        replacement = scaled
        by_hand.__name__ = "scaled"
        return by_hand

    def wrapped_by_hand(original):
        made = tripled(original)
        made.__name__ = "scaled"
        return made

    def lent_by_hand(original):
        def scaled({first}x):
            from torch import sin
            return sin(x)
        return scaled
"""

FIRST_PARAMETER = {"Function": "", "Method": "self, ", "StaticMethod": "", "ClassMethod": "cls, "}
KINDS = {
    "bare": lambda new: {"replacement": new.scaled},
    "lent": lambda new: {"replacement": new.lending()},
    "target wrapper": lambda new: {"target_wrapper": new.tripled},
    "replacement wrapper": lambda new: {"replacement": new.scaled, "replacement_wrapper": new.tripled},
    "checked": lambda new: {"replacement": new.scaled, "runtime_check": new.is_long},
    "lent, checked": lambda new: {"replacement": new.lending(), "runtime_check": new.is_long},
    "target wrapper, checked": lambda new: {"target_wrapper": new.tripled, "runtime_check": new.is_long},
    "replacement wrapper, checked": lambda new: {
        "replacement": new.scaled,
        "replacement_wrapper": new.tripled,
        "runtime_check": new.is_long,
    },
}


def original(x):
    return x * 2.0


def expected(kind, x):
    """What a model gives under a patch of that kind."""
    if "checked" in kind and x.shape[0] <= 3:
        return original(x) + 1.0
    value = original(x) if "target wrapper" in kind else torch.sin(x)
    return (value * 3.0 if "wrapper" in kind else value) + 1.0


COMPILERS = {
    "compile": lambda model: torch.compile(model, fullgraph=True, backend="eager"),
    "trace": torch.fx.symbolic_trace,
    "export": lambda model: lambda x: torch.export.export(model, (x,)).module()(x),
    "script": torch.jit.script,
}

#: How each compiler refuses what it cannot take, and which function written by hand it refuses likewise.
BY_HAND = {
    "trace": ("checked_by_hand", "cannot be used as inputs to control flow"),
    "script, lent": ("lent_by_hand", "undefined value sin|import statements aren't supported"),
    "script, checked": ("checked_by_hand", "Inferred '(self|cls)' to be of type 'Tensor'"),
    "script, wrapped": ("wrapped_by_hand", "Inferred '(self|cls)' to be of type 'Tensor'"),
}


def refusal(place, kind, compiler):
    """The key in :data:`BY_HAND` of why the compiler cannot take it; "" where it can."""
    if compiler == "trace":
        return "trace" if "checked" in kind else ""
    if compiler != "script" or kind == "bare":
        return ""
    if "lent" in kind and (place in ("Function", "StaticMethod") or "checked" not in kind):
        return "script, lent"
    if FIRST_PARAMETER[place]:
        return "script, checked" if "checked" in kind else "script, wrapped"
    return ""


CASES = [(place, kind, compiler) for place in FIRST_PARAMETER for kind in KINDS for compiler in COMPILERS]

_numbers = itertools.count(1)


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Writes an upstream library and our replacements as files, since what compiles source has to find some.

    Each time under new names: dynamo keeps the modules that it has met by name, also over a reset.
    """
    monkeypatch.syspath_prepend(tmp_path)
    torch._dynamo.reset()
    names = []

    def modules(place):
        """The model, the dotted path of what it calls, and the module of the replacements."""
        number = next(_numbers)
        upstream, new = f"upstream_{number}", f"new_{number}"
        text = NEW.replace("{first}", FIRST_PARAMETER[place])
        (tmp_path / f"{upstream}.py").write_text(textwrap.dedent(UPSTREAM))
        (tmp_path / f"{new}.py").write_text(textwrap.dedent(text))
        importlib.invalidate_caches()
        names.extend((upstream, new))
        model = getattr(importlib.import_module(upstream), f"Of{place}")
        target = f"{upstream}.scaled" if place == "Function" else f"{upstream}.Of{place}.scaled"
        return model, target, importlib.import_module(new)

    yield modules
    for name in names:
        sys.modules.pop(name, None)


@pytest.fixture
def inputs():
    return torch.randn(5, dtype=torch.float64), torch.randn(2, dtype=torch.float64)


@pytest.mark.parametrize(("place", "kind", "compiler"), [case for case in CASES if not refusal(*case)])
def test_a_patched_model_compiles(load, inputs, place, kind, compiler):
    model, target, new = load(place)
    with Patcher().add(AtomicPatch(target, **KINDS[kind](new))) as patcher:
        assert patcher.report.applied
        compiled = COMPILERS[compiler](model())
        for x in inputs:
            torch.testing.assert_close(model()(x), expected(kind, x))
            torch.testing.assert_close(compiled(x), expected(kind, x))


@pytest.mark.parametrize(("place", "kind", "compiler"), [case for case in CASES if refusal(*case)])
def test_what_a_compiler_refuses_it_refuses_by_hand_as_well(load, inputs, monkeypatch, place, kind, compiler):
    function, message = BY_HAND[refusal(place, kind, compiler)]
    model, target, new = load(place)
    with Patcher().add(AtomicPatch(target, **KINDS[kind](new))):
        torch.testing.assert_close(model()(inputs[0]), expected(kind, inputs[0]))
        with pytest.raises(Exception, match=message):
            COMPILERS[compiler](model())

    model, target, new = load(place)
    owner = sys.modules[model.__module__] if place == "Function" else model
    by_hand = getattr(new, function)(getattr(owner.scaled, "__func__", owner.scaled))
    decorators = {"StaticMethod": staticmethod, "ClassMethod": classmethod}
    monkeypatch.setattr(owner, "scaled", decorators.get(place, lambda made: made)(by_hand))
    model()(inputs[0])
    with pytest.raises(Exception, match=message):
        COMPILERS[compiler](model())


@pytest.mark.parametrize("is_wanted", [True, False])
@pytest.mark.parametrize("place", FIRST_PARAMETER)
def test_symbolic_trace_takes_the_branch_of_a_check_that_looks_at_no_tensor(load, inputs, place, is_wanted):
    model, target, new = load(place)
    new.IS_WANTED = is_wanted
    with Patcher().add(AtomicPatch(target, new.scaled, runtime_check=new.is_wanted)):
        traced = torch.fx.symbolic_trace(model())
    for x in inputs:
        torch.testing.assert_close(traced(x), (torch.sin(x) if is_wanted else original(x)) + 1.0)


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("place", FIRST_PARAMETER)
@pytest.mark.parametrize("is_disabled", [False, True])
def test_after_restore_and_where_it_is_disabled_upstream_is_compiled(
    load, inputs, place, compiler, is_disabled
):
    model, target, new = load(place)
    for kind in KINDS:
        patcher = Patcher().add(AtomicPatch(target, **KINDS[kind](new)))
        if is_disabled:
            patcher.disable(target).apply()
        else:
            patcher.apply().restore()
    compiled = COMPILERS[compiler](model())
    for x in inputs:
        torch.testing.assert_close(compiled(x), original(x) + 1.0)


@pytest.mark.parametrize("place", ["Method", "ClassMethod"])
def test_script_wants_a_method_to_be_named_as_its_attribute_also_by_hand(load, monkeypatch, place):
    model, target, new = load(place)
    with Patcher().add(AtomicPatch(target, new.otherwise_named)), pytest.raises(
        RuntimeError, match="Can't redefine method: otherwise_named"
    ):
        torch.jit.script(model())

    model, _, new = load(place)
    monkeypatch.setattr(model, "scaled", new.otherwise_named)
    with pytest.raises(RuntimeError, match="Can't redefine method: otherwise_named"):
        torch.jit.script(model())


def test_script_takes_the_name_of_the_target_in_a_wrapper_for_a_recursion_also_by_hand(load, monkeypatch):
    model, target, new = load("Function")
    with Patcher().add(AtomicPatch(target, target_wrapper=new.tripled_by_its_name)), pytest.raises(
        RuntimeError, match="'scaled' is called recursively"
    ):
        torch.jit.script(model())

    model, _, new = load("Function")
    upstream = sys.modules[model.__module__]
    by_hand = new.tripled_by_its_name(upstream.scaled)
    by_hand.__name__ = "scaled"  # as pickle wants it
    monkeypatch.setattr(upstream, "scaled", by_hand)
    with pytest.raises(RuntimeError, match="'scaled' is called recursively"):
        torch.jit.script(model())
