"""torch.compile while patches come and go. Each case in a fresh process: dynamo builds its tables once."""

from __future__ import annotations

import textwrap

import pytest

torch = pytest.importorskip("torch", reason="these are patches of torch")
TORCH = tuple(int(part) for part in torch.__version__.split(".")[:2])

PRELUDE = """
import sys
import warnings

import torch

import library
from patcher_core import AtomicPatch, Patcher, configure_summary

configure_summary(False)
torch.manual_seed(0)
x = torch.randn(4, 4)


def compiled(function):
    return torch.compile(function, backend="eager", fullgraph=True)


def doubled(original):
    def twice(*args, **kwargs):
        return original(*args, **kwargs) * 2

    return twice
"""

LIBRARY = """
import torch


class Scale(torch.nn.Module):
    def scale(self, x):
        return x * 3

    def forward(self, x):
        return self.scale(x)


class Linear(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x)


model = Scale()
linear = Linear()


def function(x):
    return torch.matmul(x, x)


def method(x):
    return x.matmul(x)


def operator(x):
    return x @ x
"""


@pytest.fixture
def run(run_python):
    def run_code(code):
        run_python(PRELUDE + textwrap.dedent(code), {"library.py": LIBRARY}, warnings="default")
        return run_python.said

    return run_code


CASES = """
cases = {
    "torch.matmul": library.function,
    "torch.Tensor.matmul": library.method,
    "torch.Tensor.__matmul__": library.operator,
    "library.Scale.scale": library.model,
    "torch.nn.Linear.forward": library.linear,
}
expected = {target: case(x) for target, case in cases.items()}


def check(results, wanted):
    wrong = [target for target, result in results.items() if not torch.equal(result, wanted[target])]
    assert not wrong, wrong


def apply():
    patcher = Patcher().add(*(AtomicPatch(target, target_wrapper=doubled) for target in cases)).apply()
    patched = {target: case(x) for target, case in cases.items()}
    assert not any(torch.equal(patched[target], expected[target]) for target in cases)
    return patcher, patched


"""


def test_apply_then_the_first_compile_of_the_process_then_restore(run):
    run(
        CASES
        + """
assert "torch._dynamo" not in sys.modules
patcher, patched = apply()
compiled_cases = {target: compiled(case) for target, case in cases.items()}
check({target: case(x) for target, case in compiled_cases.items()}, patched)
patcher.restore()
check({target: case(x) for target, case in compiled_cases.items()}, expected)
check({target: compiled(case)(x) for target, case in cases.items()}, expected)
"""
    )


def test_what_was_compiled_before_apply_sees_the_patches_and_is_reported(run):
    said = run(
        CASES
        + """
compiled_cases = {target: compiled(case) for target, case in cases.items()}
check({target: case(x) for target, case in compiled_cases.items()}, expected)
patcher, patched = apply()
check({target: case(x) for target, case in compiled_cases.items()}, patched)
assert any("torch_compile: code that torch.compile made before" in note for note in patcher.report.notes)
"""
    )
    assert "WARNING: code that torch.compile made before patches changed" in said


def test_a_lazy_apply_reports_it_as_well(run):
    said = run(
        """
        del sys.modules["library"]
        Patcher().add(AtomicPatch("library.Scale.scale", target_wrapper=doubled)).apply(lazy=True)
        torch.compile(lambda x: x + 1, backend="eager")(x)
        import library
        """
    )
    assert said.count("code that torch.compile made before") == 1


def test_without_any_change_nothing_is_dropped(run):
    said = run(
        """
        from torch._dynamo.testing import CompileCounter
        counter = CompileCounter()
        patcher = Patcher().add(AtomicPatch("torch.matmul", target_wrapper=doubled)).apply()
        compiled_function = torch.compile(library.function, backend=counter)
        compiled_function(x)
        patcher.apply()
        compiled_function(x)
        assert counter.frame_count == 1
        """
    )
    assert "torch.compile" not in said


@pytest.mark.skipif(TORCH < (2, 2), reason="torch before 2.2 has no such table")
def test_dynamo_imported_while_patched_knows_the_originals_after_its_table_is_rebuilt(run):
    run(
        """
        patcher = Patcher().add(AtomicPatch("torch.matmul", target_wrapper=doubled)).apply()
        from torch._dynamo import trace_rules
        of_2_4 = getattr(trace_rules, "clear_lru_cache", None)  # torch before 2.4 does not name what empties it
        (of_2_4 or trace_rules.get_torch_obj_rule_map.cache_clear)()
        compiled(library.function)(x)
        patcher.restore()
        assert torch.equal(compiled(library.function)(x), x @ x)
        """
    )


def test_a_wrapped_function_of_torch_is_wrapped_once_in_code_that_fx_generates(run):
    run(
        """
        patcher = Patcher().add(AtomicPatch("torch.matmul", target_wrapper=doubled)).apply()
        traced = torch.fx.symbolic_trace(library.function)
        assert torch.equal(traced(x), 2 * (x @ x))
        patcher.restore()
        assert torch.equal(torch.fx.symbolic_trace(library.function)(x), x @ x)
        """
    )
