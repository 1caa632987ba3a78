"""What the compilers of torch see of patches, besides test_every_kind_under_every_compiler."""

from __future__ import annotations

import importlib
import sys
import textwrap

import pytest
import torch

from patcher_core import (
    AtomicPatch,
    LegacyPatch,
    Patch,
    Patcher,
    RegistryPatch,
    SourceMatchPatch,
)
from patcher_core.fingerprints import function_fingerprint

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

    def scaled_again(x):
        return x * 2.0

    class Block(torch.nn.Module):
        def forward(self, x):
            return x * 2.0

        def method(self, x):
            return x * 2.0

        @property
        def factor(self):
            return 2.0

    class Registry:
        def __init__(self):
            self.table = {}

        def register_module(self, name=None, force=False, module=None):
            if name in self.table and not force:
                raise KeyError(name)
            self.table[name] = module

    MODELS = Registry()
    MODELS.register_module("Block", module=Block)

    class Caller(torch.nn.Module):
        def forward(self, x):
            return scaled(x) + 1.0
"""

NEW = """
    import torch

    def replacement(x):
        return torch.sin(x)

    def is_long(x):
        return x.shape[0] > 3

    def replacement_method(self, x):
        return torch.sin(x)

    def replacement_factor(self):
        return 5.0

    def wrap(function):
        def wrapped(x):
            return function(x) * 3.0
        return wrapped

    def legacy(module, options):
        module.scaled = replacement

    class NewBlock(torch.nn.Module):
        def forward(self, x):
            return torch.sin(x)
"""


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """An upstream library and our replacements, as files: what compiles source has to find some."""
    for name, text in (("compiled_upstream", UPSTREAM), ("compiled_new", NEW)):
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))
        sys.modules.pop(name, None)
    monkeypatch.syspath_prepend(tmp_path)
    torch._dynamo.reset()
    yield importlib.import_module("compiled_upstream"), importlib.import_module("compiled_new")
    for name in ("compiled_upstream", "compiled_new"):
        sys.modules.pop(name, None)
        globals().pop(
            f"__import_{name}", None
        )  # where dynamo of torch 2.1 keeps the modules of classes it met


@pytest.fixture
def x():
    return torch.randn(5, dtype=torch.float64)


FUNCTIONS = {
    "unconditional": lambda new: {"replacement": new.replacement},
    "runtime_check": lambda new: {"replacement": new.replacement, "runtime_check": new.is_long},
    "replacement_wrapper": lambda new: {"replacement": new.replacement, "replacement_wrapper": new.wrap},
    "target_wrapper": lambda new: {"target_wrapper": new.wrap},
    "wrapped and checked": lambda new: {
        "replacement": new.replacement,
        "replacement_wrapper": new.wrap,
        "runtime_check": new.is_long,
    },
}
EXPECTED = {
    "unconditional": torch.sin,
    "runtime_check": torch.sin,
    "replacement_wrapper": lambda x: torch.sin(x) * 3.0,
    "target_wrapper": lambda x: x * 6.0,
    "wrapped and checked": lambda x: torch.sin(x) * 3.0,
}

COMPILERS = {
    "compile": lambda model, x: torch.compile(model, fullgraph=True, backend="eager"),
    "export": lambda model, x: torch.export.export(model, (x,)).module(),
    "script": lambda model, x: torch.jit.script(model),
}


def test_a_scripted_dispatcher_decides_at_every_call_and_can_be_saved(modules, x, tmp_path):
    upstream, new = modules
    patch = AtomicPatch("compiled_upstream.scaled", new.replacement, runtime_check=new.is_long)
    with Patcher().add(patch):
        torch.jit.script(upstream.scaled).save(str(tmp_path / "dispatcher.pt"))
    loaded = torch.jit.load(str(tmp_path / "dispatcher.pt"))
    torch.testing.assert_close(loaded(x), torch.sin(x))
    torch.testing.assert_close(loaded(x[:2]), x[:2] * 2.0)


def test_script_says_what_to_do_where_the_parameters_differ(modules):
    upstream, new = modules

    def check(*args):
        return True

    patch = AtomicPatch("compiled_upstream.scaled", new.replacement, runtime_check=check)
    with Patcher().add(patch), pytest.raises(
        Exception, match="for fixed parameters, give the replacement and"
    ):
        torch.jit.script(upstream.Caller())


@pytest.mark.parametrize("compiler", ["compile", "export"])
@pytest.mark.parametrize("kind", ["alias", "legacy", "source match"])
def test_other_ways_to_a_module_function_compile(modules, x, kind, compiler):
    upstream, new = modules
    target = "compiled_upstream.scaled"
    patch = {
        "alias": lambda: AtomicPatch("compiled_upstream.scaled_again", new.replacement, aliases=[target]),
        "legacy": lambda: LegacyPatch(new.legacy, target_module="compiled_upstream"),
        "source match": lambda: SourceMatchPatch(
            "compiled_upstream",
            "scaled",
            matches=[function_fingerprint(upstream.scaled).fingerprint],
            replacement=new.replacement,
        ),
    }[kind]()
    with Patcher().add(patch):
        compiled = COMPILERS[compiler](upstream.Caller(), x)
        torch.testing.assert_close(compiled(x), torch.sin(x) + 1.0)


@pytest.mark.parametrize("compiler", ["compile", "export", "trace"])
@pytest.mark.parametrize("is_checked", [False, True])
def test_a_property_compiles(modules, x, is_checked, compiler):
    upstream, new = modules
    check = (lambda self: True) if is_checked else None

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.block = upstream.Block()

        def forward(self, x):
            return self.block.factor * x

    with Patcher().add(
        AtomicPatch("compiled_upstream.Block.factor", new.replacement_factor, runtime_check=check)
    ):
        compiled = {**COMPILERS, "trace": lambda model, x: torch.fx.symbolic_trace(model)}[compiler](
            Model(), x
        )
        torch.testing.assert_close(compiled(x), x * 5.0)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_registered_class_compiles(modules, x, compiler):
    upstream, new = modules
    with Patcher().add(RegistryPatch("compiled_upstream.MODELS", new.NewBlock, name="Block")):
        compiled = COMPILERS[compiler](upstream.MODELS.table["Block"](), x)
        torch.testing.assert_close(compiled(x), torch.sin(x))


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_a_model_compiled_while_patched_works_after_restore(modules, x, kind):
    upstream, new = modules
    model = upstream.Caller()
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    patcher = Patcher().add(AtomicPatch("compiled_upstream.scaled", **FUNCTIONS[kind](new)))
    with patcher:
        torch.testing.assert_close(compiled(x), EXPECTED[kind](x) + 1.0)
    torch.testing.assert_close(compiled(x), x * 2.0 + 1.0)


def test_a_group_compiles_as_its_parts_do(modules, x):
    upstream, new = modules

    class Group(Patch):
        @classmethod
        def patches(cls, options=None):
            return [
                AtomicPatch("compiled_upstream.scaled", new.replacement),
                AtomicPatch("compiled_upstream.Block.method", new.replacement_method),
            ]

    with Patcher().add(Group):
        compiled = torch.compile(upstream.Caller(), fullgraph=True, backend="eager")
        torch.testing.assert_close(compiled(x), torch.sin(x) + 1.0)
