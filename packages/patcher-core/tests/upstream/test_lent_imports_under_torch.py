"""Functions with lent imports, seen by the compilers of torch."""

from __future__ import annotations

# ruff: noqa: F821 - a lent name is undefined to a linter
import pytest
import torch

from patcher_core.lent_imports import lend, with_imports

#: Dynamo of torch 2.1 reads what torch 2.1 calls deprecated; later ones find Python 3.13.0 slow.
pytestmark = [
    pytest.mark.filterwarnings("ignore:'has_.*' is deprecated:UserWarning"),
    pytest.mark.filterwarnings("ignore:Guards may run slower on Python:RuntimeWarning"),
]


@pytest.fixture
def x():
    return torch.randn(7, dtype=torch.float64, requires_grad=True)


@pytest.fixture(autouse=True)
def _fresh_dynamo():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def make_function():
    @with_imports(("torch", "sin"), ("torch.nn", "functional", "F"))
    def function(x, *, scale=2.0):
        return F.relu(sin(x)) * scale + sum([sin(x).mean() for _ in range(2)])

    return function


def expected(x):
    return torch.nn.functional.relu(torch.sin(x)) * 2.0 + torch.sin(x).mean() * 2


def test_it_compiles_without_graph_breaks_once_lent(x):
    function = make_function()
    lend(function)
    compiled = torch.compile(function, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(x), expected(x))
    (gradient,) = torch.autograd.grad(compiled(x).sum(), x)
    torch.testing.assert_close(gradient, torch.autograd.grad(expected(x).sum(), x)[0])


def test_it_compiles_inside_a_module_and_behind_its_own_decorators(x):
    function = make_function()

    @with_imports("torch", "@torch.no_grad()")
    def detached(x):
        return torch.cos(x)

    class Model(torch.nn.Module):
        @staticmethod
        @with_imports(("torch", "tanh"))
        def bounded(x):
            return tanh(x)

        def forward(self, x):
            return self.bounded(function(x)) + detached(x)

    for lendable in (function, detached, Model):
        assert lend(lendable)
    result = torch.compile(Model(), fullgraph=True, backend="eager")(x)
    torch.testing.assert_close(result, torch.tanh(expected(x)) + torch.cos(x).detach())


def test_what_was_compiled_before_the_first_call_is_still_right(x):
    compiled = torch.compile(make_function(), backend="eager")
    for _ in range(3):
        torch.testing.assert_close(compiled(x), expected(x))


def test_symbolic_trace_and_export_see_through_it(x):
    function = make_function()

    class Model(torch.nn.Module):
        def forward(self, x):
            return function(x)

    lend(function)
    torch.testing.assert_close(torch.fx.symbolic_trace(Model())(x), expected(x))
    exported = torch.export.export(Model(), (x,)).module()
    torch.testing.assert_close(exported(x), expected(x))
